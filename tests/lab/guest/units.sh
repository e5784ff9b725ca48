# units.sh - memory protection where systemd is process 1: the units of a user's manager and of the
# system are protected as they are. Sourced by systemd.sh; each function is a part of that job.
users=$cg/user.slice
mine=$users/user-1000.slice
app=$mine/user@1000.service/app.slice
scale=/proc/sys/vm/watermark_scale_factor
scale_before=$(cat $scale)

protection() { cat "$1/memory.min" 2> /dev/null; } # CGROUP
is_protected() { [ "$(protection "$1")" = "$2" ]; }
has_some() { [ "$(protection "$1")" -gt 0 ]; }
film=(setpriv --reuid 1000 --regid 1000 --clear-groups env XDG_RUNTIME_DIR=/run/user/1000 chrt -o 0)
as_film() { "${film[@]}" "$@"; } # WORD…: runs as the user film, with that user's manager
scope() { # NAME WORD…: starts a program in an application's scope, as a desktop does
	local name=$1
	shift
	"${film[@]}" systemd-run --user --scope --quiet --slice=app.slice --unit="$name" "$@" > /dev/null 2>&1 < /dev/null &
	pids+=($!)
}
# UNIT: what else the daemon says above it is protected for less
limited_by() { json --arg unit "$1" '.memory.protected.domains[] | select(.path | endswith($unit)) | .limited_by'; }

# A user with a manager of its own. The image has no pam_systemd, which would set the variable.
units_user() {
	mount -o remount,nsdelegate,memory_recursiveprot $cg # as systemd mounts it
	echo 'film:x:1000:1000::/tmp:/bin/sh' >> /etc/passwd
	echo 'film:x:1000:' >> /etc/group
	echo 'film:*:19000:0:99999:7:::' >> /etc/shadow
	mkdir -p /run/systemd/system/user@1000.service.d /etc/aplomb/specs.d
	printf '[Service]\nEnvironment=XDG_RUNTIME_DIR=/run/user/1000\n' > /run/systemd/system/user@1000.service.d/lab.conf
	specs=/etc/aplomb/specs.d
	program leave editor
	chmod 755 $bin $bin/editor
	spec editor 2ms/100ms
	printf '[memory]\nprotect = true\n' >> /etc/aplomb/aplomb.toml
	mkdir -p /run/systemd/system/aplomb.service.d
	printf '[Service]\nRestart=no\n' > /run/systemd/system/aplomb.service.d/lab.conf
}

units_protected() {
	say "units are protected as they are"
	systemctl start user@1000.service
	check user-has-a-manager "" until_true 10 is_active user@1000.service
	scope app-editor-1.scope $bin/editor 30 900000 1
	editor=$!
	own=$app/app-editor-1.scope
	check unit-is-protected "$(protection $own)" until_true 10 is_protected $own max
	check unit-keeps-its-program "$(pid_in $editor)" grep -q "/app.slice/app-editor-1.scope\$" /proc/$editor/cgroup
	sleep 2
	local used
	used=$(cat $own/memory.current)
	check above-is-protected-for-it "$used used; $(limited_by app-editor-1.scope)" [ "$(limited_by app-editor-1.scope)" = null ]
	# What no unit needs would be shared by all that the user runs.
	local most=$((used + (48 << 20)))
	check above-is-protected-for-no-more "$(protection $mine), $used used" within "$used" "$(protection $mine)" $most
	# Reclaim from all users' memory: the kernel goes by the protection of each cgroup between.
	scope app-idle-1.scope $programs/leave 60 900000 1
	local idle=$app/app-idle-1.scope
	is_full() { [ "$(cat $idle/memory.current)" -gt $((60 << 20)) ]; }
	until_true 20 is_full
	used=$(cat $own/memory.current)
	echo 300M > $users/memory.reclaim 2> /dev/null # more than there is
	local after
	after=$(cat $own/memory.current)
	check protected-memory-stays "$after of $used" within $((used - (2 << 20))) "$after" $most
	check other-memory-is-reclaimed "$(cat $idle/memory.current)" within 0 "$(cat $idle/memory.current)" $((30 << 20))
	as_film systemctl --user stop app-idle-1.scope

	systemd-run --quiet --unit=plain.service $bin/editor 5 900000 1
	check service-is-protected "$(protection $cg/system.slice/plain.service)" until_true 5 is_protected $cg/system.slice/plain.service max
	systemd-run --quiet --unit=shared.service --uid=1000 sh -c "sleep 900 & exec $bin/editor 5 900000 1"
	chrt -o 0 systemd-run --quiet --scope --unit=session-9.scope --slice=user-1000.slice --uid=1000 $bin/editor 5 900000 1 > /dev/null 2>&1 < /dev/null &
	in_session=$!
	pids+=($!)
	check session-program-is-recognised "" until_true 10 is_admitted $in_session
	until_true 10 has_some $cg/system.slice
	sleep 1
	check session-is-not-protected "$(protection $mine/session-9.scope)" is_protected $mine/session-9.scope 0
	check session-keeps-its-program "$(pid_in $in_session)" grep -q "/session-9.scope\$" /proc/$in_session/cgroup
	check shared-service-is-not-protected "$(protection $cg/system.slice/shared.service)" is_protected $cg/system.slice/shared.service 0
	check services-have-their-bound "$(protection $cg/system.slice)" within 1 "$(protection $cg/system.slice)" $((200 << 20))
}

units_followed() {
	say "a program that is moved into its scope later"
	as_film systemd-run --user --quiet --unit=launcher.service sh -c "exec $bin/editor 5 900000 1"
	local launcher=$mine/user@1000.service/app.slice/launcher.service moved
	until_true 5 is_protected $launcher max
	moved=$(cat $launcher/cgroup.procs)
	scope app-moved-1.scope sleep 900
	until_true 5 test -d $app/app-moved-1.scope
	as_film sh -c "echo $moved > $app/app-moved-1.scope/cgroup.procs"
	check follows-into-its-scope "$(pid_in "$moved"), $(protection $app/app-moved-1.scope)" until_true 20 is_protected $app/app-moved-1.scope max
	check leaves-what-it-left "$(protection $launcher)" until_true 2 eval "! has_some $launcher"

	say "what runs in a terminal is not the terminal's"
	scope app-term-1.scope sh -c "python3 -c 'import os, pty
child = pty.fork()[0]
if child == 0: os.execvp(\"sleep\", [\"sleep\", \"900\"])
os.waitpid(child, 0)' & sleep 3; exec $bin/editor 5 900000 1"
	local terminal=$!
	check terminal-program-is-recognised "" until_true 10 is_admitted $terminal
	sleep 1
	check terminal-is-not-protected "$(protection $app/app-term-1.scope)" is_protected $app/app-term-1.scope 0
	kill -KILL $terminal
}

units_bounded() {
	say "a user's limit"
	local total
	total=$(awk '$1 == "MemTotal:" { print $2 * 1024 }' /proc/meminfo)
	scope app-greedy-1.scope sh -c "$programs/leave $((total * 6 / 10 >> 20)) 900000 1 & exec $bin/editor 5 900000 1"
	local greedy=$app/app-greedy-1.scope
	until_true 20 is_protected $greedy max
	uses_half() { [ "$(cat $greedy/memory.current)" -gt $((total / 2)) ]; }
	until_true 60 uses_half
	sleep 14 # two rounds
	check user-has-a-limit "$(protection $mine) of $total" within $((total / 4)) "$(protection $mine)" $((total / 2))
	check all-have-a-limit "$(protection $users) of $total" within $((total / 4)) "$(protection $users)" $((total / 2))
	systemctl stop shared.service
	as_film systemctl --user stop app-greedy-1.scope
	is_less() { [ "$(protection $mine)" -lt $((total / 4)) ]; }
	check what-ends-is-not-protected "$(protection $mine)" until_true 10 is_less
}

units_restored() {
	say "systemd writes its settings anew"
	systemctl daemon-reload
	systemctl set-property --runtime user-1000.slice CPUWeight=200
	as_film systemctl --user set-property --runtime app-editor-1.scope CPUWeight=200
	all_protected() { is_protected $own max && has_some $app && has_some $mine && has_some $users; }
	check protected-after-changes "$(protection $users) $(protection $mine) $(protection $app) $(protection $own)" until_true 4 all_protected
	sleep 3
	check protected-for-good "$(protection $users) $(protection $mine) $(protection $app) $(protection $own)" all_protected
}

units_are_back() {
	local knob
	for knob in $users $mine $mine/user@1000.service $app $own $cg/system.slice $cg/system.slice/plain.service; do
		is_protected $knob 0 || return
	done
	[ "$(cat $scale)" = "$scale_before" ] && ! [ -s /run/aplomb/knobs ]
}

units_killed() {
	say "SIGKILL, and no restart"
	check knobs-are-turned "" all_protected
	kill -KILL "$main"
	is_failed() { [ "$(property aplomb.service ActiveState)" = failed ]; }
	check killed "$(systemctl status aplomb.service --no-pager -n 3 2>&1)" until_true 20 is_failed
	check knobs-are-back "$(protection $own); $(cat $scale); $(cat /run/aplomb/knobs)" units_are_back
	check programs-go-on "$(pid_in $editor)" grep -q "/app-editor-1.scope\$" /proc/$editor/cgroup
	systemctl reset-failed aplomb.service
}
