/* Copyright: (c) 2026, lockstep.gpu contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* libnccl.so.2: says its own version. */
#include "stub.h"
NUMBER_FIELD;
int ncclGetVersion(int *value) { *value = (int)number; return 0; }
