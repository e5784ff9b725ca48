# Tests the main functions on another kernel. $EXPECT is "works", or "refused" if the kernel has no
# sched_ext. $LIMITS is "told" if the kernel reports cpu.max to schedulers (since 6.17). One CPU.
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

. /job/guest/tree.sh
domain_of idle # before the start: 6.16 and 6.18 report no change of cpu.idle, only its value then
echo 1 > $cg/idle/cpu.idle
start_daemon || { finish; exit; }
check attached "" attached
# The verifier refuses a program when it has followed a million instructions of it. Each kernel's
# follows others, so a change that costs little on the newest may stop the daemon on this one.
most=$(sed -n 's/^verified_insns:[[:space:]]*//p' /proc/$daemon/fdinfo/* 2> $out/fdinfo.err | sort -n | tail -n 1)
check verifier-has-room "$most instructions of 1000000" within 100000 "$most" 850000
/job/aplomb doctor > $out/doctor 2>&1
check doctor-agrees "" [ $? = 0 ]
bg $bin/plain
plain=$!
check matched "" until_true 3 has_spec $plain plain
end_all
bg $hog 10
r=$(fg $bin/movie 5000 30000 100 brief)
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

domain_of a
domain_of b
weigh b 300
for path in a b idle; do in_domain $path $hog 1; done
i0=$(used idle)
ppm=$(share a b 8)
idle_us=$(($(used idle) - i0))
check shares-one-to-three "$ppm, 250000 due" within 245000 "$ppm" 255000
check idle-gets-little "$idle_us us in 8 s" within 2000 $idle_us 80000
echo "20000 100000" > $cg/b/cpu.max
sleep 1
ppm=$(had b 4)
case $LIMITS in
told) check quota "$ppm, 200000 due" within 190000 "$ppm" 210000 ;;
# kernels before 6.17: docs/domains.md
*) check no-quota-but-shares "$ppm, 750000 due" within 730000 "$ppm" 760000 ;;
esac
check attached-with-domains "$(state)" attached
end_all
gone a b idle
stop_daemon
check stock-again "" stock
finish
