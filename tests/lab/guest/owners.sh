# Tests that all programs of a user have one account (bpf/reserved/owner.bpf.h): of CPU time by
# right of reservations, and of the table of servers. Two CPUs would only double the limits: one.
. /job/guest/lib.sh

program stay loop
program periodic film
program stay sleeper
spec loop 5ms/100ms   # not revocable: as a shell's
spec film 5ms/30ms
cp /usr/bin/sleep $bin/promised # one that takes LD_PRELOAD
cp /usr/bin/sleep $bin/soft
spec promised 5ms/100ms 'guaranteed = true'
spec soft 5ms/100ms 'server = "cbs-soft"'
spec sleeper 100us/10s
chmod 755 /opt $bin
seats=/run/systemd/seats
mkdir -p $seats
seat() { # UID: the user whose session is the active one; none: no user's
	printf 'IS_SEAT0=1\n%s\n' "${1:+ACTIVE_UID=$1}" > $seats/.new
	mv $seats/.new $seats/seat0
}
seat ''
start_daemon || { finish; exit; }

attacker=65534
as() { # UID LOGIN WORD…: becomes that user; LOGIN: the user that has logged in, "" for none
	local uid=$1 login=$2
	shift 2
	[ -z "$login" ] || echo "$login" > /proc/self/loginuid || exit
	exec chrt -o 0 setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@" > /dev/null 2>&1
}
loops() { # UID LOGIN NUMBER
	local i
	for ((i = 0; i < $3; i++)); do ( as "$1" "$2" $bin/loop 3600000 ) & done
}
admitted() { json '[.tasks[] | select(.spec == "loop" and .state == "admitted")] | length'; }
end_loops() { pkill -KILL -x loop; until_true 5 no_tasks; sleep 1; }
few() { [ "$(admitted)" -le "$1" ]; }
many() { [ "$(admitted)" -ge "$1" ]; }
film() { # UID: the frames that its film misses of 200 are $missed
	chrt -o 0 setpriv --reuid "$1" --regid "$1" --clear-groups $bin/film 4500 30000 200 brief > $out/film 2>&1
	missed=$(value missed "$(cat $out/film)")
}

say "a user who starts many programs"
loops $attacker "" 40
sleep 5
n=$(admitted)
check a-fifth-is-admitted "$n of 40 loops of 5 %" within 3 "$n" 4
film 1001
check another-user-is-admitted-and-misses-none "$(cat $out/film)" [ "$missed" -le 2 ]
film 0
check root-misses-none "$(cat $out/film)" [ "$missed" -le 2 ]
check it-is-logged "$(a log | grep 'user 65534' | tail -n 1)" \
	eval 'a log | grep -q "all programs of user 65534 together use .* of at most 20"'
pid=$(json '[.tasks[] | select(.spec == "loop" and .state == "rejected") | .pid][0]')
check why "$(a log --why "$pid" | tail -n 3)" eval 'a log --why "$pid" | grep -q "all programs of user 65534"'
loops 100001 $attacker 10
sleep 3
n=$(admitted)
check the-ids-of-a-login-are-one-account "$n" within 3 "$n" 4
loops 1002 "" 10
sleep 3
n=$(admitted)
check another-user-has-one-of-its-own "$n" within 6 "$n" 8
end_loops

# What a user starts runs the user's code, whatever its file: LD_PRELOAD, a debugger, a script of
# the program's own. So what a spec promises to a program is bounded by the account of its user.
say "promises to programs of a user, with code of the user's own"
own_code() { as $attacker "" env LD_PRELOAD=$programs/loop.so "$bin/$1" 3600; }
sleep 5 # what the loops used is out of the account's load
for ((i = 0; i < 10; i++)); do own_code promised & done
sleep 3
promised() { json '[.tasks[] | select(.spec == "promised" and .state == "admitted" and .guaranteed)] | length'; }
served() { json "[.tasks[] | select(.spec == \"$1\") | .served_ns] | add / 1000000 | floor"; } # SPEC: ms
n=$(promised)
# Three: with a fourth the sum would not be below a fifth.
check promises-fill-the-account "$n of 10 loops of 5 %, below a fifth may be" within 3 "$n" 3
began=$(now_ms)
before=$(served promised)
film 1001
check another-user-misses-none-beside-promises "$(cat $out/film)" [ "$missed" -le 2 ]
sleep 4
share=$((($(served promised) - before) * 1000 / ($(now_ms) - began)))
check promises-are-used-and-no-more "$share of 1000, three loops of 5 % by right" within 140 "$share" 155
pkill -KILL -x promised
until_true 5 no_tasks
sleep 1
# It goes before best-effort work for what its account's limit leaves of each second, and is revoked
# if that is not enough in two seconds in a row: in the third second at the latest. No look at it
# before the film's end: this shell and what it starts run at real-time priority.
( film 1001; cp $out/film $out/film_beside ) &
film=$!
sleep 1
own_code soft &
soft=$!
wait $film
missed=$(value missed "$(cat $out/film_beside)")
check another-user-misses-none-beside-cbs-soft "$(cat $out/film_beside)" [ "$missed" -le 2 ]
since() { a log --json --pid $soft | jq -r "select(.event == \"$1\") | .time_ns / 1000000 | floor" | head -n 1; } # EVENT: ms
admitted=$(since admitted)
revoked=$(since owner)
ms=$((${revoked:-0} - ${admitted:-0}))
check cbs-soft-loop-is-revoked-in-time "after $ms ms" within 100 $ms 3000
pkill -KILL -x soft
until_true 5 no_tasks
sleep 1

say "the user in front of the screen"
seat $attacker
sleep 1
loops $attacker "" 40
sleep 5
n=$(admitted)
check three-fifths-are-admitted "$n of 40 loops of 5 %" within 8 "$n" 12
film 1001
check another-user-misses-none "$(cat $out/film)" [ "$missed" -le 2 ]
seat 1001
check they-are-revoked-when-it-leaves "$(admitted)" until_true 12 few 5
pid=$(json '[.tasks[] | select(.state == "revoked") | .pid][0]')
check the-cause-is-known "$(a log --why "$pid" | tail -n 3)" eval 'a log --why "$pid" | grep -q "all programs of user 65534"'
rm -r $seats/seat0
end_loops

say "the table"
many=1300
began=$(now_ms)
for ((i = 0; i < many; i++)); do
	( as $attacker "" $bin/sleeper ) &
	# This shell runs at real-time priority. The kernel's watchdog, which does not, has 15 s.
	[ $((i % 400)) != 399 ] || sleep 1
done
# An ordinary task looks: a look at all of them takes long, and as a real-time task it would leave
# them, and the kernel's watchdog, no time.
started() { fg pgrep -xc sleeper; }
all_run() { [ "$(started)" = $many ]; }
check all-of-them-run "$(started) of $many" until_true 60 all_run
sleep 2
n=$(nr_tasks)
check its-part-is-full "$n" [ "$n" = 1024 ]
# A line for each would be as many as have no place.
n=$(grep -c 'places for' $daemon_log)
may=$((10 + 1 + ($(now_ms) - began) / 10000 + 1))
check many-are-refused "$((many - 1024)) of $many, at least 100 more than the $may lines that may be written" [ $((many - 1024)) -ge $((may + 100)) ]
check the-others-are-named-in-few-lines "$n lines for $((many - 1024)) refusals, at most $may may be" within 1 "$n" $may
check it-is-said-that-lines-are-left-out "$(grep 'places for' $daemon_log | tail -n 1)" grep -q 'of further warnings one in 10 s is written' $daemon_log
film 1001
check another-user-has-a-place "$(cat $out/film)" [ "$missed" -le 2 ]
sleep 5 # ten seconds after the first of the lines
( as $attacker "" $bin/sleeper ) &
left_out() { sed -n 's/.*places for.*: \([0-9]*\) more warnings before.*/\1/p' $daemon_log | tail -n 1; }
is_counted() { [ "$(left_out)" -ge 200 ]; }
check those-left-out-are-counted "$(left_out)" until_true 5 is_counted
pkill -KILL -x sleeper
check all-leave "$(nr_tasks)" until_true 20 no_tasks
loops 1003 "" 2
check the-rows-are-free-again "" until_true 5 many 2
end_loops
end_job
