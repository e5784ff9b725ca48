# Part of domain_faults.sh: processes move between domains in any state: runnable, throttled,
# ending.

# LIMIT PROCESSES LOAD…: starts LOAD twice, at least PROCESSES processes in all, in a domain with
# cpu.max LIMIT. Moves them 30 times to a new domain; removes the old one at once.
moved() {
	local limit=$1 processes=$2 from=a to=b i stuck
	shift 2
	domain_of mv; domain_of mv/a
	echo "$limit" > $cg/mv/a/cpu.max
	in_domain mv/a "$@"
	in_domain mv/a "$@"
	until_true 5 has mv/a "$processes"
	for i in $(seq 30); do
		sleep 0.0$((RANDOM % 5))
		mkdir $cg/mv/$to
		echo "$limit" > $cg/mv/$to/cpu.max
		echo $((RANDOM % 500 + 1)) > $cg/mv/$to/cpu.weight
		until rmdir $cg/mv/$from 2> /dev/null; do move_all mv/$from mv/$to; done
		from=$to to=$((i % 9))
	done
	echo max > $cg/mv/$from/cpu.max
	check "moved-$name" "" alive
	check "moved-$name-whole" "$(procs_of mv/$from | wc -l) processes" has mv/$from "$processes"
	stuck=$(stuck mv/$from 1)
	check "moved-$name-all-run" "$stuck" none "$stuck"
	mkdir $cg/mv/last
	kill -KILL "${pids[@]}"
	until rmdir $cg/mv/$from 2> /dev/null; do move_all mv/$from mv/last; done
	end_all
	check "moved-$name-and-ended" "$(state)" attached
	gone mv/last mv
}
say "tasks move while runnable, throttled, ending"
name=runnable moved max 10 $hog 4
name=throttled moved "3000 100000" 10 $hog 4
name=ending moved max 4 $hog 0 --forks
name=ending-throttled moved "3000 100000" 4 $hog 0 --forks
check moved-leaves-no-domain "$(domains), were $alone" until_true 3 are_domains "$alone"

say "tasks move out of a throttled domain and into one"
domain_of t; domain_of t/inner; domain_of f; domain_of o
in_domain o $hog 1
in_domain t/inner $hog 2
until_true 5 has t/inner 3
for limited in t/inner t; do
	echo "10000 1000000" > $cg/$limited/cpu.max
	sleep 0.4 # the domain has used its 10 ms and is throttled until the next second
	throttled=$(had t 0.1)
	move_all t/inner f
	ppm=$(had f 0.3)
	check "out-of-a-throttled-${limited/\//-}" "$throttled before, $ppm after, 500000 due" within 400000 "$ppm" 600000
	check "was-throttled-${limited/\//-}" "$throttled" within 0 "$throttled" 20000
	sleep 0.5
	move_all f t/inner
	check "all-moved-${limited/\//-}" "" empty f
	ppm=$(had t 2)
	check "into-a-throttled-${limited/\//-}" "$ppm, 10000 due" within 3000 "$ppm" 25000
	echo max > $cg/$limited/cpu.max
	ppm=$(had t 0.3)
	check "limit-lifted-${limited/\//-}" "$ppm, 500000 due" within 400000 "$ppm" 600000
done
say "a throttled domain is killed and removed"
echo "10000 1000000" > $cg/t/cpu.max
sleep 0.4
from=$(now_ms)
echo 1 > $cg/t/cgroup.kill
check throttled-can-be-killed "after $(until_true 3 empty t/inner; echo $(($(now_ms) - from))) ms" empty t/inner
from=$(now_ms)
gone t/inner t
check throttled-can-be-removed "after $(($(now_ms) - from)) ms" [ ! -d $cg/t ]
end_all
gone f o
