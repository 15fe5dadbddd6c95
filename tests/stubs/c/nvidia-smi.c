/* Copyright: (c) 2026, lockstep.gpu contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* nvidia-smi: carries its version as a text of its own; talks to what LOADED says is loaded. */
#include <stdio.h>
#include <string.h>
#include "stub.h"
TEXT_FIELD(version, "@VERSION@");
int main(int argc, char **argv)
{
    char loaded[64] = "", mine[80];
    int i = 0;
    FILE *file = fopen(LOADED, "r");
    while ((mine[i] = version[2 + i]) != 0) i++;
    if (argc > 1 && !strcmp(argv[1], "--version")) {
        printf("NVIDIA-SMI version  : %s\nNVML version        : %s\nDRIVER version      : ", mine, mine);
        printf("%s\nCUDA Version        : N/A\n", file ? mine : "N/A");
        return 0;
    }
    if (!file) {
        puts("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
             "Make sure that the latest NVIDIA driver is installed and running.\n");
        return 9;
    }
    if (fgets(loaded, sizeof loaded, file)) loaded[strcspn(loaded, "\n")] = 0;
    fclose(file);
    if (strcmp(loaded, mine)) {
        printf("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: %.6s\n", mine);
        return 18;
    }
    if (argc > 1 && strstr(argv[1], "driver_version")) puts(mine);
    return 0;
}
