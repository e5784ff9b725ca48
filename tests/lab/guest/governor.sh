# Tests the governor: measured loads, admission, revocation in an overload, reactivation. One CPU.
# Thresholds are the defaults: R_lo 60 %, R_hi 80 %, R_max 90 %.
. /job/guest/lib.sh

for name in a b c d r1 r2 quiet; do program stay $name; done
program periodic steady
for name in a b c d; do spec $name 6ms/25ms; done # 24 % each, irrevocable
for name in r1 r2; do spec $name 6ms/25ms 'revocable = true'; done
spec steady 6ms/25ms 'revocable = true'
spec quiet 6ms/25ms 'revocable = true'
start_daemon || { finish; exit; }

say "admission"
for name in a b c d; do
	bg $bin/$name
	eval "$name=$!"
	sleep 0.2
done
sleep 0.3
/job/aplomb status --json > $out/admission.json
for name in a b c; do
	pid=${!name}
	check admitted-$name "24 % each, below 80 %" [ "$(task_of $pid state $out/admission.json)" = admitted ]
done
check refused-at-R_hi "the fourth: 72 + 24 %" [ "$(task_of $d state $out/admission.json)" = rejected ]
check refusal-is-logged "$(/job/aplomb log --json --pid $d | grep rejected)" \
	grep -q '"bandwidth_ppm":240000,.*"load_ppm":[4-7].*"r_hi_ppm":800000' <(/job/aplomb log --json --pid $d | grep rejected)
check refused-is-admitted-when-load-has-gone "they sleep" until_true 15 is_admitted $d
end_all
until_true 3 no_tasks
# The same again, in places of the table that had a budget before; this time the refused task runs.
for name in a b c; do bg $bin/$name; done
sleep 0.5
bg $bin/d 500
d=$!
sleep 1
/job/aplomb status --json > $out/refused.json
accounts="$(task_of $d state $out/refused.json): $(task_of $d exhausted $out/refused.json) used up, $(task_of $d missed $out/refused.json) missed"
check refused-has-no-periods "$accounts" [ "$accounts" = "rejected: 0 used up, 0 missed" ]
end_all
until_true 3 no_tasks

say "loads"
bg $bin/a
a=$!
sleep 0.2
kill -USR1 $a
bg $hog 4
sleep 8
check R_load-is-what-is-used "$(load_of 0 r_load_ppm) ppm by a task of 24 %" within 230000 "$(load_of 0 r_load_ppm)" 250000
check S_load-has-come-to-R_load "$(load_of 0 s_load_ppm) ppm" within 220000 "$(load_of 0 s_load_ppm)" 260000
check use-is-in-status "$(task_of $a use_ppm) ppm" within 220000 "$(task_of $a use_ppm)" 260000
end_all
until_true 3 no_tasks
sleep 5

overload() { # all tasks sleep at their start, so all are admitted; then four of them run without end
	local name
	for name in a b r1 r2 quiet; do
		bg $bin/$name
		eval "$name=$!"
		sleep 4 # S_load has gone down
	done
	bg $bin/steady 5000 25000 100000
	steady=$!
	sleep 1
	/job/aplomb status --json > $out/before-overload.json
	for name in $a $b $r1 $r2 $quiet $steady; do
		[ "$(task_of $name state $out/before-overload.json)" = admitted ] || return
	done
	kill -USR1 $a $b $r1 $r2
}
any_revoked() { [ "$(counter revoked)" -gt "$revoked_before" ]; }
revocation() { # NAME
	revoked_before=$(counter revoked)
	check overload-begins$1 "" overload
	# One sleep, no polling: this job runs at real-time priority, and the time it takes lowers
	# R_load.
	sleep 8
	check overload-is-relieved$1 "within two windows" any_revoked
	sleep 2
	/job/aplomb status --json > $out/overload$1.json
	for name in a b quiet; do
		pid=${!name}
		check keeps-$name$1 "irrevocable, or takes no part" [ "$(task_of $pid state $out/overload$1.json)" = admitted ]
	done
	state=$(task_of $r1 state $out/overload$1.json)+$(task_of $r2 state $out/overload$1.json)
	check revokes-from-tasks-that-use-all$1 "r1+r2: $state" [ "${state/revoked/}" != "$state" ]
	state=$(task_of $steady state $out/overload$1.json)
	check keeps-the-moderate-task$1 "uses 20 of 24 %: $state" [ "$state" = admitted ]
	check load-is-bearable$1 "$(load_of 0 r_load_ppm) ppm" within 500000 "$(load_of 0 r_load_ppm)" 900000
}
say "revocation without best-effort load"
revocation ""
say "reactivation"
since=$(date +%s)
kill -KILL $a $b
none_revoked() { ! /job/aplomb status --json | grep -q '"state": "re'; }
check revoked-come-back "when the load has gone" until_true 40 none_revoked
/job/aplomb log --json > $out/log
gap=$(sed -n 's/.*"event":"reactivated".*"time_ns":\([0-9]*\).*/\1/p' $out/log | awk 'NR > 1 { gap = ($1 - last) / 1e6
	if (least == "" || gap < least) least = gap } { last = $1 } END { if (least != "") printf "%d", least }')
check at-most-one-reactivation-a-window "least time between two: ${gap:-only one came} ms" within 3900 "${gap:-4000}" 99999999
end_all
until_true 3 no_tasks
sleep 6
say "revocation beside best-effort load"
bg $hog 10
revocation -loaded
end_all
until_true 3 no_tasks
check still-attached "" attached
/job/aplomb log --json > $out/log
end_job
