# Tests that no best-effort task starves: beside a full reservation, among many tasks, beside the
# heaviest weights. One CPU. LONG=1 measures for longer with the same bounds.
. /job/guest/lib.sh

# How long each part measures, ms: the shortest that holds some whole seconds, or two rescues, which
# come 10 s apart.
beside_reserved=20000 among_many=24000 beside_heaviest=30000
[ -z "$LONG" ] || beside_reserved=60000 among_many=30000 beside_heaviest=40000

for name in a b c d; do
	program stay $name
	spec $name 6ms/25ms # 24 % each, irrevocable
done
start_daemon || { finish; exit; }

say "full reservation"
for name in a b c d; do
	bg $bin/$name
	eval "$name=$!"
	sleep 4
done
kill -USR1 $a $b $c $d
sleep 3
r=$(fg /job/guest-programs/spin $beside_reserved)
check no-task-starves "one best-effort task beside four irrevocable that want 96 %: $r" \
	within 98000 "$(value ppm "$r")" 1000000
# the seconds of `spin` are not the scheduler's windows: one turn more or less
check no-task-starves-for-a-second "$r" within 90000 "$(value worst_second_ppm "$r")" 1000000
check gaps-are-bounded "$r" within 0 "$(value gap_ms "$r")" 200
check irrevocable-have-theirs "$(task_of $a use_ppm) ppm" within 205000 "$(task_of $a use_ppm)" 250000
end_all

say "weights"
bg $hog 1
r=$(fg /job/guest-programs/spin 10000 5)
check two-share-by-weight "nice 5 beside nice 0: 335 of 1359, 24.7 %: $r" within 235000 "$(value ppm "$r")" 260000
end_all

say "the lightest tasks"
share_beside() { # LEAST MOST DUE WORD…: a loop beside one that WORD… makes light, ppm
	local least=$1 most=$2 due=$3
	shift 3
	"$@" $hog 1 &
	light_pid=$!
	sleep 0.5
	r=$(fg /job/guest-programs/spin 8000)
	local name="$*"
	check "share-beside-${name// /-}" "$due: $r" within "$least" "$(value ppm "$r")" "$most"
	kill -KILL $light_pid
	wait $light_pid 2> /dev/null
}
share_beside 994000 998500 "1024 of 1027" chrt -i 0
share_beside 985000 995000 "100 of 101" chrt -o 0 nice -n 19

say "nice 19 among 400 tasks of nice 0"
bg $hog 400
sleep 3
r=$(fg /job/guest-programs/spin $among_many 19)
check weakest-task-runs "nice 19 among 400 of nice 0: $r" within 0 "$(value gap_ms "$r")" 20000
end_all

say "nice 19 beside nice -20"
bg $hog 5 --nice -20
sleep 1
r=$(fg /job/guest-programs/spin $beside_heaviest 19)
check weakest-beside-heaviest-runs "nice 19 beside five of nice -20: $r" within 0 "$(value gap_ms "$r")" 14000
end_all
say "a kernel thread that always has work"
ksm=/sys/kernel/mm/ksm thp=/sys/kernel/mm/transparent_hugepage/enabled
thp_before=$(sed 's/.*\[\(.*\)\].*/\1/' $thp)
echo never > $thp # khugepaged, which works each 10 s, has a lift of its own beside ksmd's
bg /job/guest-programs/alike 64
ksm_before=$(cat $ksm/pages_to_scan $ksm/sleep_millisecs $ksm/run)
echo 5000 > $ksm/pages_to_scan && echo 0 > $ksm/sleep_millisecs && echo 1 > $ksm/run
sleep 2
r=$(fg /job/guest-programs/spin 8000)
check ksmd-has-its-share "nice 0 beside ksmd, nice 5, which is lifted for a twentieth: $r" \
	within 700000 "$(value ppm "$r")" 1000000
check ksmd-holds-it-up-for-its-lift "$r" within 0 "$(value gap_ms "$r")" 80
echo 0 > $ksm/run
read -r -d '' pages sleep_ms run <<< "$ksm_before"
echo "$pages" > $ksm/pages_to_scan && echo "$sleep_ms" > $ksm/sleep_millisecs && echo "$run" > $ksm/run
echo "$thp_before" > $thp
end_all

say "sessions"
# The job itself is in no session of its own, so in no autogroup. DETAILS LOW HIGH [MS [NICE]]: the
# share of a loop in a session of its own, beside those of one other session.
loop_of_its_own() {
	local name=$1 details=$2 low=$3 high=$4 ms=${5:-8000} nice=${6:-0}
	r=$(fg setsid --wait /job/guest-programs/spin "$ms" "$nice")
	check "$name" "$details: $r" within "$low" "$(value ppm "$r")" "$high"
}
# NICE: of the autogroup of the 16 loops. They wait for what they ran at the weight before.
session_nice() {
	check "autogroup-takes-nice-$1" "$(cat /proc/$session/autogroup)" eval "echo $1 > /proc/$session/autogroup"
	sleep 2
}
bg setsid $hog 16
session=$!
sleep 1
loop_of_its_own a-session-weighs-one-task "beside 16 loops of one session" 470000 530000
r=$(fg /job/guest-programs/spin 4000)
check a-task-in-no-session-is-one-beside-it "beside 16 loops of one session: $r" within 470000 "$(value ppm "$r")" 530000
loop_of_its_own negative-nice-counts-between-sessions "nice -5, 304 of 404, beside 16 loops" 730000 770000 4000 -5
session_nice 5
loop_of_its_own a-light-session "autogroup of nice 5: 100 of 132, beside its 16 loops" 730000 775000 4000
session_nice -5
loop_of_its_own a-heavy-session "autogroup of nice -5: 100 of 404, beside its 16 loops" 235000 260000 4000
session_nice 0
loop_of_its_own and-back "autogroup of nice 0 again" 470000 530000 4000
end_all
bg setsid nice -n 19 $hog 4
sleep 1
loop_of_its_own a-session-of-nice-19-stays-light "100 of 104, beside 4 loops" 940000 980000 4000
end_all
sysctl -q kernel.sched_autogroup_enabled=0
bg setsid $hog 16
sleep 1
loop_of_its_own unless-autogroups-are-off "beside 16 loops of one session" 54000 64000
sysctl -q kernel.sched_autogroup_enabled=1
end_all
bg setsid $hog 1000
sleep 8 # each has to wait once
# A turn of one of them counts as 4 s of the loop's, so both have the CPU for up to 4 s at a time.
# In 24 s, from any point of such a round on, the loop has 10 s at least.
loop_of_its_own a-session-of-1000-too "beside 1,000 loops of one session" 400000 600000 24000
check it-waits-for-a-round-at-most "$r" within 0 "$(value gap_ms "$r")" 4500
check no-task-of-the-1000-starves "" attached
end_all

check still-attached "" attached
/job/aplomb log --json > $out/log
end_job
