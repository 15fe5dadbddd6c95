/* Copyright: (c) 2026, lockstep.gpu contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* libcuda.so.1: says which CUDA it is for, and finds no device. */
#include "stub.h"
NUMBER_FIELD;
TEXT_FIELD(version, "@VERSION@");
int cuInit(unsigned int flags) { (void)flags; return version[2] ? 100 : 999; }
int cuDriverGetVersion(int *value) { *value = (int)number; return 0; }
int cuDeviceGetCount(int *count) { *count = 0; return 3; }
