# Tests what becomes of protected programs and of knobs when the daemon is killed while memory is
# short, and when the kernel ends the scheduler. One CPU, 768 MB, swap of 400 requests a second.
. /job/guest/lib.sh
. /job/guest/memory_lib.sh

program leave sleeper
spec sleeper 5ms/100ms
mkdir -p /etc/aplomb
printf '[memory]\nprotect = true\n' > /etc/aplomb/aplomb.toml
start_daemon || { finish; exit; }

chmod 755 $bin/sleeper
chrt -o 0 "${as_nobody[@]}" $bin/sleeper 5 900000 1 > /dev/null 2>&1 &
users=$!
check protected "$(protection $top/65534/sleeper-$users)" until_true 10 is_protected $top/65534/sleeper-$users max

say "SIGKILL while memory is short and a program grows, and the next daemon"
scale_now=$(cat $scale)
check huge-pages-are-on "" huge_is always
check khugepaged-scans-one-at-a-time "" scans 512 1250
start_bombs
bg_to /dev/null $bin/sleeper 240 900000 1
grows=$!
check the-growth-buffer-opens "$scale_now, $(cat $scale)" until_true 20 scale_is -gt $scale_now
check huge-pages-are-off "" until_true 5 huge_is madvise
kill -KILL $daemon
wait $daemon 2> /dev/null
check knobs-outlive-sigkill "$(cat $scale)" scale_is -gt $scale_now
# To start a timer that does not exist is refused: -EINVAL, which the kernel's histogram has as a
# number without a sign.
tracing=/sys/kernel/tracing
[ -d $tracing/events ] || mount -t tracefs tracefs $tracing
echo 'r:timers bpf_timer_start ret=$retval:s64' > $tracing/kprobe_events
echo 'hist:keys=ret' > $tracing/events/kprobes/timers/trigger
echo 1 > $tracing/events/kprobes/timers/enable
start_daemon
check khugepaged-does-so-again "" scans 512 1250
check protected-again "$(protection $top/65534/sleeper-$users)" until_true 10 is_protected $top/65534/sleeper-$users max
sleep 2
starts=$(sed -n 's/^{ ret: *\([0-9]*\) }.*/\1/p' $tracing/events/kprobes/timers/hist)
echo 0 > $tracing/events/kprobes/timers/enable
starts=$(echo $starts)
check all-timers-exist "bpf_timer_start() returned: $starts" \
	eval '[[ " $starts " = *" 0 "* && $starts != *18446744073709551594* ]]'
kill -KILL $bombs $grows
check the-growth-buffer-shuts "$scale_now, $(cat $scale)" until_true 30 scale_is -eq $scale_now
check huge-pages-are-on-again "" until_true 5 huge_is always

say "less is kept free than the kernel recommends for huge pages"
# If a setting of them were written, it would keep 24 MB more at once, and no task could swap.
min_free=/proc/sys/vm/min_free_kbytes
min_free_now=$(< $min_free)
echo 5000 > $min_free
start_bombs
bg_to /dev/null $bin/sleeper 240 900000 1
grows=$!
check the-growth-buffer-opens-again "$scale_now, $(cat $scale)" until_true 20 scale_is -gt $scale_now
check huge-pages-stay-on "" eval 'sleep 2; huge_is always'
check so-does-what-is-kept-free "$(< $min_free)" [ "$(< $min_free)" = 5000 ]
kill -KILL $bombs $grows
check the-growth-buffer-shuts-again "$scale_now, $(cat $scale)" until_true 30 scale_is -eq $scale_now
echo "$min_free_now" > $min_free

say "the kernel ends the scheduler"
echo S > /proc/sysrq-trigger
check daemon-ends-with-it "" until_true 20 has_ended $daemon
wait $daemon 2> /dev/null
check knobs-are-back-then "$(cat $scale); $(cat /run/aplomb/knobs)" knobs_are_back
check no-domain-is-left-then "$(ls -d $top 2>&1)" [ ! -d $top ]
start_daemon

say "the end"
check protected-once-more "$(protection $top/65534/sleeper-$users)" until_true 10 is_protected $top/65534/sleeper-$users max
stop_daemon
check knobs-are-back "$(cat $scale); $(cat /run/aplomb/knobs)" knobs_are_back
check processes-are-back "$(cat /proc/$users/cgroup)" grep -q '^0::/$' /proc/$users/cgroup
check no-domain-is-left "$(ls $top 2>&1)" [ ! -d $top ]
kill -KILL $users
end_all
check stock-again "" until_true 5 stock
finish
