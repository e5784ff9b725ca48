# Tests aplomb.service when the daemon or its scheduler ends by itself: a daemon that hangs, a
# scheduler that the kernel ends again and again. systemd is process 1.
. /job/guest/lib.sh

is_active() { systemctl is-active aplomb.service; }
property() { systemctl show -P "$1" aplomb.service; }
main() { property MainPID; }
journal() { journalctl -u aplomb --no-pager -n "$1"; }
drop_in() { # LINE: a setting of the service for this test
	mkdir -p /run/systemd/system/aplomb.service.d
	printf '[Service]\n%s\n' "$1" > /run/systemd/system/aplomb.service.d/test.conf
	systemctl daemon-reload
}

until_true 60 systemctl is-active basic.target
install -m 755 /job/aplomb /usr/bin/aplomb
cp /job/aplomb.service /run/systemd/system/
systemctl daemon-reload
systemctl start aplomb.service
check service-starts "$(systemctl status aplomb.service --no-pager -n 5 2>&1)" is_active
attached || { journalctl -b --no-pager > $out/journal.txt; finish; exit; }

say "what the service may have"
files=$(awk '/^Max open files/ { print $4 }' "/proc/$(main)/limits")
check may-open-files "$files" [ "$files" = 8192 ]
check only-some-system-calls "$(grep Seccomp: "/proc/$(main)/status")" grep -q '^Seccomp:.*2' "/proc/$(main)/status"
# The daemon warns of a call that fails.
check no-call-is-refused "$(journal 20)" none "$(journalctl -u aplomb --no-pager -p warning -o cat | grep -v 'is skipped')"
peak=$(property MemoryPeak)
check memory-of-the-service "$peak bytes at most, kernel memory included" within 1 "$peak" $((128 * 1024 * 1024))

say "a daemon that hangs"
drop_in 'WatchdogSec=4s
TimeoutAbortSec=2s' # a stopped process takes no SIGABRT
systemctl restart aplomb.service
sleep 10
check its-loop-gives-signs-of-life "$(property NRestarts) restarts" [ "$(property NRestarts)" = 0 ]
hanging=$(main)
kill -STOP "$hanging"
is_another() { [ "$(main)" != "$hanging" ] && is_active && attached; }
check is-started-again "$(journal 3)" until_true 90 is_another
rm -r /run/systemd/system/aplomb.service.d
systemctl daemon-reload

say "a scheduler that the kernel ends again and again"
systemctl restart aplomb.service
eject() { # ends the scheduler as an administrator's SysRq does
	ended=$(main)
	echo S > /proc/sysrq-trigger
}
is_next() { [ "$(main)" != "$ended" ] && is_active && attached; }
eject
check first-end-starts-it-again "$(journal 3)" until_true 90 is_next
eject
check second-end-starts-it-again "$(journal 3)" until_true 90 is_next
eject
has_given_up() { systemctl is-failed aplomb.service; }
check third-end-is-final "$(systemctl status aplomb.service --no-pager -n 3 2>&1)" until_true 30 has_given_up
sleep 5
check stays-ended "$(property ExecMainStatus)" [ "$(property ExecMainStatus)" = 6 ]
check stock-runs "" stock
a status > $out/said.txt 2>&1
check status-says-so "status $?: $(cat $out/said.txt)" grep -q 'has given up: the kernel ended its scheduler 3 times in a row' $out/said.txt
systemctl start aplomb.service
check starts-by-hand "$(journal 3)" attached
eject
check is-a-new-row "$(journal 3)" until_true 90 is_next
systemctl stop aplomb.service
check stop-ends-the-row "$(ls /run/aplomb)" [ ! -e /run/aplomb/ejections ]
end_all
journalctl -b --no-pager > $out/journal.txt
finish
