#!/usr/bin/env bash
# Disposable virtual machines with a kernel, a GRUB and a network of their own: tools/vm.sh VERB ... (tools/vm.py says which verbs there are).
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case ${1:-} in
  up | image)
    apt_install qemu-system-x86 qemu-utils grub-common grub-pc-bin e2fsprogs openssh-client
    DOCKER_HOST=$(tools/engine.sh start)
    export DOCKER_HOST ;;
esac
export LOCKSTEP_STATE=$state LOCKSTEP_CACHE=$cache
exec python3 tools/vm.py "$@"
