/* Copyright: (c) 2026, lockstep.gpu contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* A prebuilt kernel module as far as modinfo and depmod look: an object with .modinfo. It cannot be loaded. */
#define FIELD(name, key, size) \
    static const char name[size] __attribute__((section(".modinfo"), used, aligned(1))) = key
FIELD(modinfo_version, "version=@VERSION@", 80);
FIELD(modinfo_license, "license=@LICENSE@", 80);
FIELD(modinfo_name, "name=@NAME@", 80);
FIELD(modinfo_depends, "depends=", 9);
FIELD(modinfo_vermagic, "vermagic=@VERMAGIC@", 144);
