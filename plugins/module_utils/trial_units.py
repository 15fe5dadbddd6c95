# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The systemd units that watch over a kernel on trial, and the shell script that they run.

They are started only where the kernel command line has the trial's token (ConditionKernelCommandLine), as early as systemd starts anything, and
stay when it isolates rescue or emergency (systemd.unit(5)). lockstep-gpu-trial-mark.service notes that user space was reached;
lockstep-gpu-trial.timer starts lockstep-gpu-trial.service, which notes the network's state and forces a reboot: GRUB then boots its default.
The timer counts from its own start (systemd.timer(5), OnActiveSec), so that a restart of it renews the time.
"""

from __future__ import annotations

import os

from ansible_collections.lockstep.gpu.plugins.module_utils import trial
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import read_text

FOLDER = "etc/systemd/system"
WANTS = FOLDER + "/sysinit.target.wants"
MARK, TIMER, RETURN, SCRIPT = ("lockstep-gpu-trial-mark.service", "lockstep-gpu-trial.timer", "lockstep-gpu-trial.service",
                               "lockstep-gpu-trial.sh")
NAMES = (MARK, TIMER, RETURN)

_HEAD = "# Written by lockstep.gpu for one trial of a kernel, and removed when the trial is over.\n"
_UNIT = """[Unit]
Description=%s
DefaultDependencies=no
IgnoreOnIsolate=yes
ConditionKernelCommandLine=%s
"""
_RETURN = """
[Service]
Type=oneshot
ExecStart=/bin/sh /%s/%s return
# Where even the script cannot run.
TimeoutStartSec=180
"""
_FAILURE = "FailureAction=reboot-immediate\n"

_SCRIPT = """#!/bin/sh
%(head)stoken=%(token)s
state=%(state)s
sysrq=%(sysrq)s

# limited SECONDS COMMAND...: no disk and no program that hangs may keep the node from going back.
limited() {
    left=$1
    shift
    "$@" &
    child=$!
    while [ "$left" -gt 0 ] && kill -0 "$child" 2>/dev/null; do
        sleep 1
        left=$((left - 1))
    done
    kill -9 "$child" 2>/dev/null
}

# put NAME: the input becomes that file in one step.
put() {
    mkdir -p "$state" && cat > "$state/.$1.new" || return
    sync "$state/.$1.new"
    mv -f "$state/.$1.new" "$state/$1" || return
    sync "$state" || :
}

reached() {
    echo "$token" | put trial.reached
}

expired() {
    {
        echo "$token"
        if command -v ip > /dev/null; then
            ip -brief address
            ip route
        else
            grep -H . /sys/class/net/*/operstate
        fi
    } 2>&1 | put trial.expired
}

case "$1" in
reached)
    reached
    ;;
return)
    limited 20 expired
    limited 20 sync
    limited 60 systemctl --force reboot
    sleep %(patience)d
    limited 30 systemctl --force --force reboot
    # Debian allows only a part of these keys.
    echo 1 > "${sysrq%%/*}/sys/kernel/sysrq" 2>/dev/null
    echo s > "$sysrq"
    sleep 2
    echo b > "$sysrq"
    ;;
esac
"""


def script(token, state="/" + trial.FOLDER, sysrq="/proc/sysrq-trigger", patience=30):
    """The shell script; the other arguments are for tests. patience: seconds until the second attempt to reboot."""
    return _SCRIPT % {"head": _HEAD, "token": token, "state": state, "sysrq": sysrq, "patience": patience}


def files(record):
    """{path below the root: text} of a record's units; without confirm_within there is nothing that returns."""
    condition = "%s=%s" % (trial.WORD, record["token"])
    mark = _HEAD + _UNIT % ("Note that the kernel on trial reached user space", condition)
    mark += ("After=systemd-remount-fs.service\nRequiresMountsFor=/%s\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh /%s/%s reached\n"
             % (trial.FOLDER, FOLDER, SCRIPT))
    found = {"%s/%s" % (FOLDER, SCRIPT): script(record["token"]), "%s/%s" % (FOLDER, MARK): mark}
    if record["confirm_within"]:
        why = "Return from the kernel on trial, which nobody confirmed within %d s" % record["confirm_within"]
        found["%s/%s" % (FOLDER, RETURN)] = _HEAD + _UNIT % (why, condition) + _FAILURE + _RETURN % (FOLDER, SCRIPT)
        found["%s/%s" % (FOLDER, TIMER)] = (_HEAD + _UNIT % (why, condition)
                                            + "\n[Timer]\nOnActiveSec=%d\nAccuracySec=1s\n" % record["confirm_within"])
    return found


def _links(names):
    """{link below the root: its target} of units that sysinit.target starts."""
    return {"%s/%s" % (WANTS, name): "../" + name for name in (MARK, TIMER) if "%s/%s" % (FOLDER, name) in names}


def differing(path, wanted):
    """The files and links to write, and those to remove: ({path: text}, {link: target}, [path]). path: a function to the root. wanted: files()."""
    links = _links(wanted)
    every = ["%s/%s" % (FOLDER, name) for name in (*NAMES, SCRIPT)]
    return ({name: text for name, text in wanted.items() if read_text(path(name)) != text},
            {name: target for name, target in links.items() if not os.path.islink(path(name)) or os.readlink(path(name)) != target},
            [name for name in (*("%s/%s" % (WANTS, unit) for unit in NAMES), *every)
             if name not in wanted and name not in links and os.path.lexists(path(name))])


def bring(path, wanted, check=False):
    """Make the units what is wanted, {} for none; True when something was to be done. Files come before links, and links go before files."""
    texts, links, surplus = differing(path, wanted)
    if check:
        return bool(texts or links or surplus)
    for name in surplus:
        trial.remove(path(name))
    for name, text in texts.items():
        trial.write(path(name), text)
    for name, target in links.items():
        os.makedirs(os.path.dirname(path(name)), exist_ok=True)
        trial.remove(path(name))
        os.symlink(target, path(name))
        trial.sync_folder(os.path.dirname(path(name)))
    return bool(texts or links or surplus)
