/* Copyright: (c) 2026, lockstep.gpu contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Any other library: something that ldconfig takes for one. */
#include "stub.h"
TEXT_FIELD(version, "@VERSION@");
int lockstep_stub(void) { return version[2]; }
