# Issue 2, section 2: other kernels. EXPECT is "works", or "refused" where sched_ext is missing. One CPU.
. /job/guest/lib.sh

program periodic movie
program spin over
program stay plain
program orphans orphan
program storm storm
spec orphan 1ms/100ms
spec storm 3ms/30ms 'inherit = true' 'revocable = true'
spec movie 6ms/30ms
spec over 6ms/30ms
spec plain 1ms/100ms

if [ "$EXPECT" = refused ]; then
	before=$(nr_bpf)
	launch_daemon
	wait $daemon
	status=$?
	check refused "status $status" [ $status = 3 ]
	check says-why "$(cat $daemon_log)" grep -q "this kernel ($(uname -r)) has no sched_ext" $daemon_log
	check nothing-loaded "" bpf_is "$before"
	check no-socket "" [ ! -e /run/aplomb/socket ]
	/job/aplomb doctor > $out/doctor 2>&1
	status=$?
	check doctor-agrees "status $status" [ $status = 3 ]
	check doctor-says-what-to-do "" grep -qi 'sched_ext' $out/doctor
	finish
	exit
fi

start_daemon || { finish; exit; }
check attached "" attached
/job/aplomb doctor > $out/doctor 2>&1
check doctor-agrees "" [ $? = 0 ]
bg $bin/plain
plain=$!
check matched "" until_true 3 has_spec $plain plain
end_all
bg /job/guest-programs/hogs 10
r=$(fg $bin/movie 5000 30000 100)
check no-deadline-missed "5:30 among 10 hogs: $r" [ "$(value missed "$r")" = 0 ]
r=$(fg $bin/over 4000)
check budget-is-exact "$r" within 199000 "$(value ppm "$r")" 210000
r=$(fg /job/guest-programs/spin 2000)
check best-effort-share "$r" within 50000 "$(value ppm "$r")" 150000
r=$(fg /job/guest-programs/orphans 10 $bin/orphan)
check orphans-run "$r" within 1 "$(value worst_us "$r")" 300000
r=$(fg $bin/storm 3000 3 1)
check storm-ends "$r" [ -n "$r" ]
end_all
check table-is-empty "" until_true 3 no_tasks
stop_daemon
check stock-again "" stock
finish
