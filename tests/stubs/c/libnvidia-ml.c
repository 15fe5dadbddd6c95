/* Copyright: (c) 2026, lockstep.gpu contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* libnvidia-ml.so.1: answers like NVML without a driver (9), with one of another version (18), or with its own (0). */
#include <stdio.h>
#include <string.h>
#include "stub.h"
TEXT_FIELD(version, "@VERSION@");
static void own(char *text) { int i = 0; while ((text[i] = version[2 + i]) != 0) i++; }
int nvmlInit_v2(void)
{
    char loaded[64] = "", mine[80];
    FILE *file = fopen(LOADED, "r");
    own(mine);
    if (!file) return 9;
    if (fgets(loaded, sizeof loaded, file)) loaded[strcspn(loaded, "\n")] = 0;
    fclose(file);
    return strcmp(loaded, mine) ? 18 : 0;
}
int nvmlInit(void) { return nvmlInit_v2(); }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned int length)
{
    char mine[80];
    own(mine);
    if (nvmlInit_v2()) return 1;
    snprintf(text, length, "%s", mine);
    return 0;
}
const char *nvmlErrorString(int rc)
{
    return rc == 0 ? "Success" : rc == 9 ? "Driver Not Loaded" : rc == 18 ? "Driver/library version mismatch" : "Uninitialized";
}
