# selftests.sh TEST…: runs the kernel's selftests of cgroups (lab/selftests) under $SCHEDULER,
# "stock" or "aplomb". The output of each test is in /job/out/TEST. If the run is invalid,
# /job/out/failure says why.
# shellcheck source=lab/guest/lib.sh
. /run/lab/lib.sh
out=/job/out
fail() {
	echo "$*" > $out/failure
	progress "failed: $*"
	exit 1
}
runs() { [ "$(scheduler_name)" = "$SCHEDULER" ] || fail "the kernel runs $(scheduler_name), not $SCHEDULER"; }

chrt -r -p 1 $$
if [ "$SCHEDULER" = aplomb ]; then
	mkdir -p /opt/no-specs
	daemon_launch $out/daemon.log --specs /opt/no-specs
	daemon_await $out/daemon.log 120 || fail "the daemon did not start: $(tail -n 3 $out/daemon.log)"
fi
cd /var/tmp || exit # on ext4: test_memcontrol reclaims its files' pages
for test; do
	runs
	progress "$SCHEDULER, $(nproc) CPUs: $test"
	chrt -o 0 "/job/selftests/$test" > "$out/$test" 2>&1 < /dev/null
done
runs
[ -z "$daemon" ] || daemon_stop || fail "the daemon did not end"
