/* Copyright: (c) 2026, lockstep.gpu contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Fields that elf.py fills after compiling: a text of 64 bytes behind its mark, and a number. volatile: read from memory. */
#define TEXT_FIELD(name, mark) static const volatile char name[80] = "\0\0" mark "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@"
#define NUMBER_FIELD static const volatile unsigned int number = 0x5AFEC0DE
/* What a test says is loaded: the version of the driver in the kernel, one line. Without it there is none. */
#define LOADED "/run/lockstep-gpu-driver"
