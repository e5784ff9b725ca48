# Tests the limits: more interactive processes than the table has places (4,096), and more specs
# than there is room for matchers (8,192). One CPU.
. /job/guest/lib.sh

program stay tiny
program stay after
program many root
spec tiny 100us/10s # 10 ppm each: all are admitted
spec after 1ms/100ms
MEMORY=${MEMORY:-}
mkdir -p /etc/aplomb
[ -z "$MEMORY" ] || printf '[memory]\nprotect = true\n' > /etc/aplomb/aplomb.toml
start_daemon || { finish; exit; }

say "4,200 interactive tasks"
chrt -o 0 $bin/root 4200 $bin/tiny > $out/started & root=$!
check all-could-start "" until_true 240 grep -q started=4200 $out/started
all_counted() { [ "$(counter limit)" -ge 105 ]; }
until_true 5 all_counted
check table-is-full "$(nr_tasks) tasks" [ "$(nr_tasks)" = 4095 ]
check limit-is-counted "$(counter limit) times" [ "$(counter limit)" = 105 ]
# With memory the daemon has a cgroup to make for each first: it may take a minute.
[ -z "$MEMORY" ] || until_true 60 grep -q '4096 places' $daemon_log
check limit-is-logged "" grep -q '"event":"limit",.*"limit":4096' <(/job/aplomb log --json)
check daemon-warns "$(grep -c 'stays best-effort' $daemon_log)" grep -q '4096 places' $daemon_log
protected() { json '.memory.protected.domains | length'; }
[ -z "$MEMORY" ] || check memory-of-all-is-protected "$(protected)" [ "$(protected)" = 4095 ]
bg $bin/after 5
after=$!
sleep 0.5
check over-the-limit-is-best-effort "" none "$(task_of $after spec)"
check over-the-limit-runs "" grep -q 'State:.*S' /proc/$after/status
r=$(fg /job/guest-programs/spin 1000)
check machine-is-usable "$r" within 500000 "$(value ppm "$r")" 1000000
kill -KILL $root
until_true 60 no_tasks
check places-come-back "$(nr_tasks) are not free; left out by the kernel: $(bpftool prog show | grep -o 'name on_.*misses.*')" no_tasks
end_all
bg $bin/after
after=$!
check free-again "" until_true 3 has_spec $after after
end_all

say "too many specs"
awk 'BEGIN { for (i = 0; i < 9000; i++) printf "[[spec]]\nname = \"s%d\"\ncommand = \"s%d\"\ncpu = \"1ms/100ms\"\nrevocable = true\n", i, i }' > $out/many.toml
split -l 20000 --additional-suffix=.toml $out/many.toml $specs/many-
rm $out/many.toml
said() { [ "$(wc -l < $daemon_log)" -gt "$1" ]; }
check too-many-specs-are-reported "$(/job/aplomb reload 2>&1 | tail -n 1)" grep -q 8192 <(/job/aplomb reload 2>&1)
bg $bin/after
after=$!
check other-specs-hold "" until_true 3 has_spec $after after
end_all
check still-attached "" attached
stop_daemon
start_daemon || { finish; exit; }
check too-many-specs-at-start "$(tail -n 1 $daemon_log)" grep -q 'more than 8192 matchers' $daemon_log
bg $bin/after
after=$!
check other-specs-hold-at-start "" until_true 3 has_spec $after after
end_all
stop_daemon
check nothing-attached "" stock
finish
