#!/bin/sh
# Curfew: the end of this machine, at every boot and before anything else. It needs no network, no permission and no agent.
set -u
end=@END@ # seconds since 1970
calendar='@CALENDAR@'
clock_is_set_from=1735689600 # 2025-01-01: a clock that says less was never set
unset_max=900                # seconds; nothing that such a clock signs is taken by S3, so no job runs meanwhile
orderly_max=120              # seconds for an orderly end
nap_max=10                   # of these a SIGTERM cuts off so many at most
root=${CURFEW_ROOT:-}        # tests run in a directory
PATH=${PATH:+$PATH:}$root/usr/sbin:$root/usr/bin:$root/sbin:$root/bin
export PATH

say() {
    echo "curfew: $*"
    { echo "curfew: $*" >"$root/dev/kmsg"; } 2>/dev/null
}

# A clock that cannot be read says nothing.
unset_for=0
is_over() {
    now=$clock_is_set_from
    said=$(date +%s) || return 1
    case $said in '' | *[!0-9]*) return 1 ;; esac
    now=$said
    if [ "$now" -ge "$end" ]; then return 0; fi
    if [ "$now" -ge "$clock_is_set_from" ]; then unset_for=0; fi
    [ "$unset_for" -ge "$unset_max" ]
}

# The last of an orderly end: PID 1 is no more than a program that ends all processes, waits a minute and a half for those that do not heed its
# SIGTERM, and then powers off whatever has become of them. The kernel keeps 15 letters of its name.
end_at_last() {
    first=
    { read -r first <"$root/proc/1/comm"; } 2>/dev/null
    if [ "$first" = systemd-shutdow ]; then exit 0; fi
}

# In order; if that hangs, by force; if that hangs, by the kernel alone. Its own orderly end must not stop it before its last.
power_off() {
    trap '' HUP INT
    trap end_at_last TERM
    say "powering off: the end of the attempt, $calendar, is past"
    (trap '' TERM; systemctl poweroff -i || shutdown -h now || poweroff) </dev/null >/dev/null 2>&1 &
    waited=0
    while [ "$waited" -lt "$orderly_max" ]; do
        sleep "$nap_max"
        waited=$((waited + nap_max))
    done
    say "powering off by force"
    (trap '' TERM; systemctl poweroff --force --force || poweroff -f) </dev/null >/dev/null 2>&1 &
    sleep 15
    { echo 1 >"$root/proc/sys/kernel/sysrq"; } 2>/dev/null
    for key in s u o; do
        { echo "$key" >>"$root/proc/sysrq-trigger"; } 2>/dev/null
        sleep 2
    done
}

# Beside the timer, which goes first. A clock that is set later is seen here within a minute.
watch_clock() {
    { echo -1000 >"$root/proc/self/oom_score_adj"; } 2>/dev/null
    until is_over; do
        nap=60
        if [ "$((end - now))" -lt "$nap" ]; then nap=$((end - now)); fi
        if [ "$nap" -lt 1 ]; then nap=1; fi
        if sleep "$nap" && [ "$now" -lt "$clock_is_set_from" ]; then unset_for=$((unset_for + nap)); fi
    done
    sleep 30
    power_off
}

# systemd may be busy, or wait for this very script.
limited() {
    if command -v timeout >/dev/null 2>&1; then timeout 20 "$@"; else "$@"; fi
}

# A unit of its own is not stopped with cloud-init. Without the default dependencies it does not wait for the boot, which waits for
# this script, nor end before the shutdown that it watches.
as_unit() {
    unit=$1
    shift
    limited systemd-run --no-block --unit="$unit" --property=DefaultDependencies=no "$@" /bin/sh "$me" end
}

if [ "${1:-}" = end ]; then
    power_off
    exit 0
fi
me=$root/run/curfew-end
{ cp "$0" "$me"; } 2>/dev/null || me=$0
if is_over; then
    if as_unit curfew-end-now; then
        sleep 5
        # A shutdown ends this script with cloud-init, and waits for it without a limit where it does not heed that, as in `power_off`.
        if [ "$(limited systemctl is-system-running 2>/dev/null)" = stopping ]; then sleep 25; fi
    fi
    power_off
    exit 0
fi
# systemd before 220 knows neither --no-block nor those properties.
as_unit curfew-end --timer-property=DefaultDependencies=no --timer-property=AccuracySec=1s --on-calendar="$calendar" ||
    limited systemd-run --unit=curfew-end --timer-property=AccuracySec=1s --on-calendar="$calendar" /bin/sh "$me" end ||
    say "systemd keeps no timer: watching the clock instead"
# cloud-init waits until nobody holds its descriptors; without exec the shell itself would keep copies of them.
(
    exec </dev/null >/dev/null 2>&1
    watch_clock
) &
exit 0
