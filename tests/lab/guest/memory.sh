# Tests that an interactive program keeps its working set while others want more memory than there
# is, and that nothing of it outlives the daemon (other ends: memory_ends.sh). One CPU, 768 MB, swap
# of 400 requests a second.
. /job/guest/lib.sh
. /job/guest/memory_lib.sh

swapon --show=NAME --noheadings > $out/swaps
check there-is-swap "$(cat $out/swaps)" [ -s $out/swaps ]

program leave sleeper
program leave shortlived
program leave editor
program leave hog
program family clan
spec sleeper 5ms/100ms
spec shortlived 5ms/100ms 'protect = "2s"'
spec editor 5ms/100ms 'revocable = true'
spec hog 5ms/100ms 'revocable = true'
spec clan 5ms/100ms
mkdir -p /etc/aplomb
printf '[memory]\nprotect = true\n' > /etc/aplomb/aplomb.toml
start_daemon || { finish; exit; }

counted() { json --arg class "$1" --arg what "$2" '.memory.counts[] | select(.class == $class) | .[$what]'; }
held() { json '.memory.protected.held'; } # bytes of shared file pages

flag=$(for map in $(bpftool map show | sed -n 's/^\([0-9]*\): .*name [a-z_]*\.rodata.*/\1/p'); do
	bpftool map dump id "$map" | grep -o '"gfp_may_reclaim": [0-9]*'
done)
check the-kernels-flag-is-known "$flag" within 1 "${flag##* }" 2147483647

say "a program gets a domain, and its memory is protected"
bg_to $out/sleeper $bin/sleeper 80 2000 10
sleeper=$!
until_true 5 test -d $top/0/sleeper-$sleeper
own=$top/0/sleeper-$sleeper
check a-domain-of-its-own "$(cat /proc/$sleeper/cgroup)" grep -q "/aplomb/0/sleeper-$sleeper\$" /proc/$sleeper/cgroup
anon() { awk '/^anon / { print $2 }' "$1/memory.stat"; } # DIRECTORY
check all-that-it-touched-is-its-own "$(anon $own) bytes" until_true 5 eval '[ "$(anon $own)" -ge $((80 << 20)) ]'
check protected-as-a-whole "$(protection $own)" is_protected $own max
check no-domain-of-shares "$(a domain ls --json | grep -c '"path"') domains" eval '! a domain ls --json | grep -q "\"/\?aplomb"'
check the-user-has-a-cap "$(protection $top/0)" [ "$(protection $top/0)" != max ]
limit=$(($(protection $top) >> 20)) # MiB, of all programs; the machine has a quarter more
scale_now=$(cat $scale)
check the-reserve-is-set "$scale_before, then $(cat $scale)" [ "$(cat $scale)" -gt "$scale_before" ]

check pages-that-others-are-charged-for-are-held "$(held) bytes" until_true 5 eval '[ "$(held)" -gt 0 ]'
# Else the kernel's khugepaged would put new pages there, which are not locked.
flags=$(sed -n "\\|$bin/sleeper|,/VmFlags/s/VmFlags: *//p" /proc/$daemon/smaps)
check they-are-locked-and-stay-as-they-are "$flags" grep -q '\<lo\>.*\<nh\>' <(echo "$flags")

say "bombs"
start_bombs
wait $sleeper # without a new process: this script is a real-time task, and its own are never parked
last=$(tail -n 1 $out/sleeper)
check all-returns "$last" [ "$(value returns "$last")" = 10 ]
# (Without protection: 900 and more; without the pages of its file that are held: up to 6.)
check returns-without-major-faults "$last" within 0 "$(value faults "$last")" 0
check returns-at-once "$last" within 0 "$(value worst_us "$last")" 60000
check best-effort-is-parked "$(counted best-effort parked) times" [ "$(counted best-effort parked)" -gt 10 ]
check page-faults-for-swap-are-counted "$(counted best-effort swapped_in) times" [ "$(counted best-effort swapped_in)" -gt 10 ]
taken=$(json '.memory_use["/"].reclaimed')
check what-the-kernel-took-is-shown "$taken bytes" [ "$taken" -gt $((50 << 20)) ]
# in memory and in swap, kB
theirs=$(for i in $bombs; do awk '/^VmRSS|^VmSwap/ { print $2 }' "/proc/$i/status"; done | jq -s add)
all=$(a domain ls --memory --json | jq '.[] | select(.path == "/").memory_use | .in_memory + .in_swap')
check domains-show-their-memory "$all bytes, the bombs have $theirs kB" within "$((theirs * 900))" "$all" $((1600 << 20))
check interactive-does-not-reclaim "$(counted interactive reclaimed) times" [ "$(counted interactive reclaimed)" = 0 ]
check an-empty-domain-goes "$(ls -d $top/0/*-$sleeper 2>&1)" until_true 5 test ! -d $own

swapped=$(awk '/^VmSwap/ { print $2 }' /proc/$daemon/status) # kB
check the-daemon-stays-in-memory "$swapped kB in swap" within 0 "$swapped" 0

say "protection ends with the period, and comes back"
bg_to $out/shortlived $bin/shortlived 20 6000 3
short=$!
own=$top/0/shortlived-$short
until_true 5 is_protected $own max
# Beside the bombs it takes a while to grow. Its period begins with the last page.
until_true 30 has_returned $out/shortlived 0
check protected-within-its-period "$(protection $own)" is_protected $own max
check withdrawn-after-its-period "$(protection $own)" until_true 4 is_protected $own 0
check withdrawn-while-it-sleeps "$(cat $out/shortlived)" has_returned $out/shortlived 0
until_true 20 has_returned $out/shortlived 1 # it writes to all of it, and sleeps for 6 s again
check protected-when-it-runs-again "$(protection $own), $(cat $out/shortlived)" until_true 1 is_protected $own max
check its-return-is-an-event "" eval 'a log --json --pid $short | grep -q "\"returned\""'
until_true 10 is_protected $own 0 # asleep again
echo 4M > $own/memory.reclaim
check its-wait-for-swap-is-an-event "$(tail -n 1 $out/shortlived)" \
	until_true 15 eval 'a log --json --pid $short | grep -q "\"swapped\""'

say "what does not fit is demoted, the largest first"
# Beside the bombs a program grows no faster than the swap device writes, 1.6 MB a second.
kill -KILL $bombs
until_true 10 scale_is -eq $scale_now # no program grows
check huge-pages-are-on "" huge_is always
check khugepaged-scans-one-at-a-time "" scans 512 1250
# Less memory than both programs use, by more than what the kernel keeps free: while there is
# enough, none waits for it, and none is demoted. What may be protected becomes less by its part of
# what was taken.
huge_pages=/proc/sys/vm/nr_hugepages
take_huge_pages() { echo "$1" > $huge_pages && [ "$(< $huge_pages)" = "$1" ]; } # NUMBER
check memory-is-taken-away "$(< $huge_pages)" until_true 10 take_huge_pages 32
left=$((limit - 32 * 2 * 8 / 10)) # MiB
bg_to /dev/null $bin/hog $((left * 80 / 100)) 100 1000000
hog=$!
has_grown() { [ "$(anon $top/0/hog-$hog)" -ge $((left * 79 / 100 << 20)) ]; }
check the-first-has-room "" until_true 20 has_grown
protected_now() { echo $(($(protection $top) >> 20)); }
less_is_protected() { within $((left - 25)) "$(protected_now)" $((left + 25)); }
until_true 5 less_is_protected # the daemon measures once a second
check less-is-protected "$limit MiB before, $left expected, $(protected_now) now" less_is_protected
bg_to /dev/null $bin/editor $((left * 77 / 100)) 100 1000000
editor=$!
until_true 10 is_admitted $editor
check the-watermarks-move-apart "$scale_now, $(cat $scale)" until_true 20 scale_is -gt $scale_now
check huge-pages-are-off-meanwhile "" until_true 5 huge_is madvise
was_demoted() { a log --json --pid $hog | grep -q '"demoted"'; }
until_true 30 was_demoted
check the-largest-is-demoted "$left MiB: $(a log --why $hog | tail -n 2) $(a log --why $editor | tail -n 2)" was_demoted
check nothing-was-killed "$(dmesg | grep 'Killed process')" eval '! dmesg | grep -q "Killed process"'
check its-protection-ends "$(protection $top/0/hog-$hog)" is_protected $top/0/hog-$hog 0
check the-others-stays "$(protection $top/0/editor-$editor)" is_protected $top/0/editor-$editor max
a log --why $hog > $out/why
check the-log-says-why "$(tail -n 1 $out/why)" grep -q "was demoted, because .* at most [0-9]* MiB are protected" $out/why
kill -KILL $editor
check it-comes-back "$(protection $top/0/hog-$hog)" until_true 20 is_protected $top/0/hog-$hog max
check and-is-reactivated "" is_admitted $hog
kill -KILL $hog
echo 0 > $huge_pages
check the-watermarks-go-back "$(cat $scale)" until_true 10 scale_is -eq $scale_now
check huge-pages-are-on-again "" until_true 5 huge_is always

say "a user's programs have that user's cap"
chmod 755 $bin/sleeper
chrt -o 0 "${as_nobody[@]}" $bin/sleeper 5 900000 1 > /dev/null 2>&1 &
users=$!
until_true 5 is_protected $top/65534/sleeper-$users max
check a-user-gets-less "$(protection $top/65534), all $(protection $top)" \
	within 1 "$(protection $top/65534)" $(($(protection $top) - 1))

say "a limit is not escaped, and an own cgroup is protected as it is"
mkdir $cg/limited $cg/alone
echo 50M > $cg/limited/memory.max
in_cgroup() { # CGROUP WORD…: starts an ordinary task there
	chrt -o 0 sh -c 'echo $$ > $0/cgroup.procs; exec "$@"' "$@" > /dev/null 2>&1 &
	pids+=($!)
}
in_cgroup $cg/limited sleep 600
has_tasks() { [ -n "$(cat "$1/cgroup.procs")" ]; }
until_true 5 has_tasks $cg/limited # else the next one would have the cgroup to itself at first
in_cgroup $cg/limited $bin/sleeper 5 60000 1
limited=$!
in_cgroup $cg/alone $bin/sleeper 5 60000 1
alone=$!
until_true 5 is_admitted $alone
until_true 5 is_admitted $limited
own_is_protected() { ! is_protected $cg/alone 0; }
check an-own-cgroup-is-protected "$(protection $cg/alone)" until_true 5 own_is_protected
check a-limit-is-not-escaped "$(cat /proc/$limited/cgroup)" grep -q "/limited\$" /proc/$limited/cgroup
check a-shared-cgroup-is-not-protected "$(protection $cg/limited)" is_protected $cg/limited 0
kill -KILL $limited $alone
until_true 5 is_protected $cg/alone 0
in_cgroup $cg/alone $bin/clan exec sleep 600
clan=$!
check an-own-cgroup-with-children-is-protected "$(protection $cg/alone)" until_true 5 own_is_protected
kill -KILL $clan

say "children that outlive their program"
chrt -o 0 $bin/sleeper 5 1000 3 > /dev/null 2>&1 &
parent=$!
until_true 5 is_protected $top/0/sleeper-$parent max
sleep 600 &
child=$!
echo $child > $top/0/sleeper-$parent/cgroup.procs
wait $parent
check no-protection-without-the-program "$(protection $top/0/sleeper-$parent)" until_true 5 is_protected $top/0/sleeper-$parent 0

say "the end"
until_true 10 is_protected $top/65534/sleeper-$users max
stop_daemon
check knobs-are-back "$(cat $scale); $(cat /run/aplomb/knobs)" knobs_are_back
check processes-are-back "$(cat /proc/$users/cgroup)" grep -q '^0::/$' /proc/$users/cgroup
check a-child-is-back "$(cat /proc/$child/cgroup)" grep -q '^0::/$' /proc/$child/cgroup
kill -KILL $child
check no-domain-is-left "$(ls $top 2>&1)" [ ! -d $top ]
kill -KILL $users
end_all
until_true 5 rmdir $cg/alone
until_true 5 rmdir $cg/limited
check stock-again "" until_true 5 stock
finish
