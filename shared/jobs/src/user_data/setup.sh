#!/bin/sh
# Curfew: who this machine is, and its agent. Run once, late in the first boot; from then on the agent starts at every boot.
set -u
umask 022
root=${CURFEW_ROOT:-} # tests run in a directory
PATH=${PATH:+$PATH:}$root/usr/sbin:$root/usr/bin:$root/sbin:$root/bin
export PATH

# Path and mode; its content from the standard input, whole or not at all.
put() {
    mkdir -p "${1%/*}" && cat >"$1.new" && chmod "$2" "$1.new" && mv -f "$1.new" "$1"
}

base64 -d <<'CURFEW_IDENTITY' | put "$root/etc/curfew/identity.json" 644
@IDENTITY@
CURFEW_IDENTITY
put "$root/etc/curfew/fetch-agent" 755 <<'CURFEW_FETCH'
@FETCH@
CURFEW_FETCH

if [ -d "$root/run/systemd/system" ] && command -v systemctl >/dev/null 2>&1; then
    put "$root/etc/systemd/system/curfew-agent.service" 644 <<'CURFEW_UNIT'
@UNIT@
CURFEW_UNIT
    systemctl daemon-reload
    systemctl enable curfew-agent.service || echo "curfew: the agent will not start at the next boot" >&2
    if systemctl start --no-block curfew-agent.service; then exit 0; fi
    echo "curfew: systemd does not start the agent: running it without" >&2
fi
# cloud-init runs what lies here at every boot.
boot=$root/var/lib/cloud/scripts/per-boot/curfew-agent
put "$boot" 755 <<'CURFEW_BOOT'
#!/bin/sh
root=${CURFEW_ROOT:-}
(
    exec </dev/null >>"$root/var/log/curfew-agent.log" 2>&1
    until /bin/sh "$root/etc/curfew/fetch-agent" && "$root/usr/local/bin/curfew-agent"; do
        sleep 30
    done
) &
CURFEW_BOOT
mkdir -p "$root/var/log"
/bin/sh "$boot"
