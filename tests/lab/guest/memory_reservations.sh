# Tests memory that is reserved by amount: private reserves of programs (Kato section 6, with the
# three scenarios of 6.4) and reservations of domains (Eclipse section 6.4). One CPU, 768 MB, swap
# of 400 requests a second.
#
# A page that was taken is in swap, so memory.swap.current of a cgroup shows what it lost. "keeper"
# and "loser" are idle for longer than their protection period (2 s), so nothing of theirs is kept
# for its age.
. /job/guest/lib.sh

cg=/sys/fs/cgroup
top=$cg/aplomb
user=65534
mb=$((1 << 20))
swapon --show=NAME --noheadings > $out/swaps
check there-is-swap "$(cat $out/swaps)" [ -s $out/swaps ]

for name in keeper loser greedy newcomer plain-run; do
	program leave $name
	chmod 755 $bin/$name
done
spec keeper 5ms/100ms 'protect = "2s"' 'memory = "48M"'
spec loser 5ms/100ms 'protect = "2s"'
spec greedy 5ms/100ms 'memory = "8M"'
spec newcomer 5ms/100ms 'memory = "16M"'
# A user may protect 15 % of the 550 MB that programs have here, all 60 %; the rest is for domains.
mkdir -p /etc/aplomb
printf '[memory]\nprotect = true\nlimit = "60%%"\nuser-limit = "15%%"\n' > /etc/aplomb/aplomb.toml
start_daemon || { finish; exit; }

min() { cat "$1/memory.min" 2> /dev/null; } # CGROUP
is_min() { [ "$(min "$1")" = "$2" ]; }
swapped() { cat "$1/memory.swap.current"; } # CGROUP
private() { json --arg path "$1" '.memory.protected.domains[] | select(.path == $path) | .private'; } # DOMAIN
counted() { json --arg class "$1" --arg what "$2" '.memory.counts[] | select(.class == $class) | .[$what]'; }
start() { # FILE WORD…
	bg_to "$@"
	started=$!
}
in_domain() { # DOMAIN FILE WORD…
	local domain=$1 file=$2
	shift 2
	chrt -o 0 sh -c 'echo $$ > $0/cgroup.procs; exec "$@"' "$cg/$domain" "$@" > "$file" 2>&1 &
	pids+=($!)
}
fails_with() { # STATUS WORDS COMMAND…
	local status=$1 words=$2 got
	shift 2
	a "$@" > $out/refused 2>&1
	got=$?
	[ $got = "$status" ] && grep -Eq "$words" $out/refused
}

say "reservations of domains"
a domain create reserved memory=100M
check memory-is-reserved "$(min $cg/reserved)" is_min $cg/reserved $((100 * mb))
a domain create outer/inner memory=20M
check what-is-above-needs-as-much "$(min $cg/outer)" is_min $cg/outer $((20 * mb))
a domain create unreserved
check too-much-is-refused "$(cat $out/refused 2> /dev/null)" fails_with 77 'more than the [0-9.]* MiB left' domain set reserved memory=600M
check and-changes-nothing "$(min $cg/reserved)" is_min $cg/reserved $((100 * mb))
check a-part-fits-into-the-whole "$(cat $out/refused)" fails_with 77 '.*' domain set outer/inner memory=600M
a domain ls > $out/ls.txt 2>&1
check it-is-shown "$(tr '\n' '|' < $out/ls.txt | head -c 400)" grep -Eq '^ *reserved .*100\.0 MiB' $out/ls.txt
check its-sum-and-limit-are-shown "$(tail -n 1 $out/ls.txt)" grep -Eq '^memory reserved in all: 120\.0 MiB, at most [0-9.]* MiB' $out/ls.txt
a domain show reserved --json > $out/show.json
check json-has-it "$(tr -d ' \n' < $out/show.json | head -c 200)" [ "$(jq '.memory.reserved' $out/show.json)" = $((100 * mb)) ]
a domain remove outer/inner
check what-is-above-needs-nothing "$(min $cg/outer)" until_true 5 is_min $cg/outer 0

say "private reserves"
# One after the other: a daemon that waits for this one CPU for more than 100 ms is too late for the
# first pages of a program.
start $out/keeper $bin/keeper 40 12000 1
keeper=$started
until_true 5 test -d $top/0/keeper-$keeper
sleep 0.2
start $out/loser $bin/loser 16 900000 1
loser=$started
start $out/modest "${as_nobody[@]}" $bin/keeper 40 12000 1
modest=$started
until_true 5 test -d $top/$user/keeper-$modest
sleep 0.2
start $out/greedy "${as_nobody[@]}" $bin/greedy 120 900000 1
greedy=$started
in_domain reserved $out/in-reserved $programs/leave 60 12000 1
in_domain unreserved /dev/null $programs/leave 16 900000 1
until_true 5 test -d $top/$user/greedy-$greedy
own=$top/0/keeper-$keeper
has_private() { [ "$(private "aplomb/0/keeper-$keeper")" = $((48 * mb)) ]; }
check a-spec-has-a-reserve "" until_true 5 has_private
check a-user-may-have-so-much "$(cat $out/refused)" fails_with 77 "user $user.s programs may have reserved" set $greedy --memory 60M
check what-fits-is-given "" a set $greedy --memory 9M
withdrawn() { is_min $own $((48 * mb)) && is_min $top/0/loser-$loser 0; }
check idle-keeps-the-private-reserve-alone "$(min $own), $(min $top/0/loser-$loser)" until_true 6 withdrawn
check a-users-amounts-fit "$(min $top/$user/keeper-$modest) and $(min $top/$user/greedy-$greedy) of $(min $top/$user)" \
	within 1 "$(($(min $top/$user/keeper-$modest) + $(min $top/$user/greedy-$greedy)))" "$(min $top/$user)"

say "bombs"
for i in 1 2 3; do bg_to /dev/null $programs/leave 200 0 1000000; done
sleep 6
show() { echo "$(($(swapped "$1") / mb)) MB in swap"; }
little() { within 0 "$(swapped "$1")" $mb; }
much() { within $((8 * mb)) "$(swapped "$1")" $((1 << 40)); }
check a-private-reserve-is-not-taken "$(show $own)" little $own
check what-is-expired-is-taken "$(show $top/0/loser-$loser)" much $top/0/loser-$loser
check a-reservation-is-not-taken "$(show $cg/reserved)" little $cg/reserved
check best-effort-work-beside-it-is "$(show $cg/unreserved)" much $cg/unreserved
# Scenario 2: all that the user may have is drawn. A program that draws more loses its own
# pages.
check scenario-2-others-keep-theirs "$(show $top/$user/keeper-$modest)" little $top/$user/keeper-$modest
check scenario-2-who-exceeds-loses "$(show $top/$user/greedy-$greedy)" much $top/$user/greedy-$greedy

say "a program that starts when there is no free page"
start $out/newcomer $bin/newcomer 24 300 5
newcomer=$started
sleep 8
new=$top/0/newcomer-$newcomer
last=$(tail -n 1 $out/newcomer)
# Scenario 3: its private reserve of 16 MB. Scenario 1: 8 MB that it draws beyond that.
check scenarios-1-and-3-it-gets-its-pages "$last, of $(min $new) $(cat $new/memory.current)" [ "$(value returns "$last")" = 5 ]
check scenarios-1-and-3-and-keeps-them "$last" within 0 "$(value faults "$last")" 10
# newcomer's exec reads files in the kernel, where it cannot be parked.
check interactive-reclaims-little "$(counted interactive reclaimed) times" within 0 "$(counted interactive reclaimed)" 25
check best-effort-is-parked "$(counted best-effort parked) times" [ "$(counted best-effort parked)" -gt 10 ]
for name in keeper modest in-reserved; do
	until_true 10 eval 'test -s $out/$name && ! has_returned $out/$name 0'
	last=$(tail -n 1 $out/$name)
	check "$name-returns-without-major-faults" "$last" within 0 "$(value faults "$last")" 10
done
end_all

say "by request"
start $out/run /job/aplomb run --memory 16M --cpu 5ms/100ms -- $bin/plain-run 20 900000 1
run=$started
until_true 5 test -d $top/0/plain-run-$run || until_true 1 test -d $top/0/aplomb-$run
own=$(cut -d: -f3 /proc/$run/cgroup)
has_private() { [ "$(private "${own#/}")" = "$1" ]; }
check run-asks-for-a-reserve "$own: $(private "${own#/}")" until_true 5 has_private $((16 * mb))
check it-is-changed-later "$(a set $run --memory 24M 2>&1)" has_private $((24 * mb))
check and-taken-away "$(a set $run --memory none 2>&1)" has_private 0
start $out/run /job/aplomb run --memory 16M -- $bin/loser 5 900000 1
run=$started
until_true 5 test -d $top/0/loser-$run
own=/aplomb/0/loser-$run
check beside-its-own-spec "$(cat $out/run)" until_true 5 has_private $((16 * mb))
check another-users-process-is-not-given-any "" eval '! as_user /job/aplomb set $run --memory 1M'

say "SIGKILL, and the next daemon"
kill -KILL $daemon
wait $daemon 2> /dev/null
check reservations-outlive-sigkill "$(min $cg/reserved)" is_min $cg/reserved $((100 * mb))
start_daemon
check reserved-again "$(min $cg/reserved)" until_true 5 is_min $cg/reserved $((100 * mb))
end_all
stop_daemon
check the-domains-knob-is-back "$(min $cg/reserved)" is_min $cg/reserved 0
check no-knob-is-left "$(cat /run/aplomb/knobs)" eval '! [ -s /run/aplomb/knobs ]'
for name in reserved unreserved outer; do until_true 5 rmdir $cg/$name; done
check stock-again "" until_true 5 stock
finish
