# Traces the order in which the kernel dispatches the tasks of a scenario (order.toml);
# test_order.py compares it with the simulator's. The scenario's time 0 is a whole second of the
# monotonic clock.
. /job/guest/lib.sh

fields() { # prints name, start, work, period and reserve of each task; "-" stands for none
	awk -F' *= *' '
		function flush() { if (n) print n, s, w, p, r }
		{ sub(/ *#.*/, ""); gsub(/"/, "", $2) }
		/^\[\[task\]\]/ { flush(); n = ""; s = "0us"; w = p = r = "-" }
		$1 == "name" { n = $2 } $1 == "start" { s = $2 } $1 == "work" { w = $2 }
		$1 == "period" { p = $2 } $1 == "reserve" { r = $2 }
		END { flush() }' /job/order.toml
}
us() { # TIME: a time of the scenario in us
	case $1 in
	-) echo 0 ;;
	*ms) echo "${1%ms}000" ;;
	*us) echo "${1%us}" ;;
	esac
}

while read -r name start work period reserve; do
	program order "$name"
	[ "$reserve" = - ] || spec "$name" "$reserve"
done < <(fields)
start_daemon || { finish; exit; }
zero=$((($(now_ms) / 1000 + 3) * 1000)) # ms
length=$(sed -n 's/^length = "\([0-9]*\)s"/\1/p' /job/order.toml)
end=$((zero + length * 1000))
echo "$zero" > $out/zero
while read -r name start work period reserve; do
	first=$((zero * 1000 + $(us "$start")))
	bg $bin/"$name" ${first}000 "$(us "$work")" "$(us "$period")" ${end}000000
	[ "$reserve" = - ] || check "admitted-$name" "" until_true 2 is_admitted $!
done < <(fields)
check in-time "$(now_ms) ms, zero at $zero" [ "$(now_ms)" -lt "$zero" ]
grep -h '^CONFIG_HZ=' /boot/config-* > $out/hz
echo 65536 > $trace/buffer_size_kb
echo 1 > $trace/events/sched/sched_switch/enable
sleep $(((end - $(now_ms)) / 1000 + 1)) # one sleep, no polling: this shell runs at real-time priority
echo 0 > $trace/events/sched/sched_switch/enable
sed -n 's/.* \([0-9.]*\): sched_switch: .*next_comm=\(.*\) next_pid=\([0-9]*\) .*/\1 \2/p' $trace/trace > $out/switches
check traced "$(wc -l < $out/switches) switches" [ -s $out/switches ]
end_all
stop_daemon
finish
