/* Copyright: (c) 2026, lockstep.gpu contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* libcudart.so: says its own version. */
#include "stub.h"
NUMBER_FIELD;
int cudaRuntimeGetVersion(int *value) { *value = (int)number; return 0; }
