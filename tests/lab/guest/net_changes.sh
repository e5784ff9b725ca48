# An interface, its tree and its domains change while packets wait, each kind of change after many
# others: no packet is lost track of, none stays in memory, and commands are answered. Then the
# interface moves to another network namespace. One CPU.
. /job/guest/lib.sh
. /job/guest/net_lib.sh

near=near
pids=()
make_pair numtxqueues 4
far iperf3 -s -D -p 5201
mkdir -p $cgroups/{a,b,deep/1/2/3,crowd}
start_daemon || { finish; exit; }

# DOMAIN WORD…: a program there that is started again each time it ends, as a sender does when its
# interface goes down.
keeps_running() {
	local domain=$1
	shift
	enter_domain "$domain" sh -c 'while :; do "$@" > /dev/null 2>&1; sleep 0.05; done' - "$@" &
	pids+=($!)
}
no_senders() {
	end_all
	pkill -KILL -x 'datagrams|iperf3'
	! pgrep -x 'datagrams|iperf3' > /dev/null
}
i=0
one_of() { # WORD…: each in its turn, by the number of the change
	shift $((i % $#))
	echo "$1"
}
install() { a net install $near --leaf "$(one_of fair codel fifo)" --rate "$(one_of 1Mbit 10Mbit 200Mbit)"; }
crowd=0
newcomer() { # a domain that sends, and is gone
	crowd=$((crowd + 1))
	mkdir $cgroups/crowd/$crowd
	enter_domain crowd/$crowd timeout 0.3 $programs/datagrams send 10.9.0.2 9 700 &
	wait $!
	rmdir $cgroups/crowd/$crowd
}
rename() {
	local name
	name=$([ $near = near ] && echo other || echo near)
	ip link set dev $near name $name && near=$name
}
change() { # NUMBER
	case $1 in
	0) rename ;;
	1) ip link set $near mtu "$(one_of 1280 1500 9000)" && ip -n far link set across mtu 9000 ;;
	2) ip link set $near down && sleep 0.1 && ip link set $near up ;;
	3) ethtool -L $near tx "$(one_of 1 2 4)" ;;
	4) a net set $near rate="$(one_of none 1Mbit 10Mbit 200Mbit)" overhead="$(one_of 0 44)" ;;
	5) a domain set "$(one_of a b deep/1)" net.weight="$(one_of 1 100 10000)" net.max="$(one_of none 2Mbit)" ;;
	6) a net queue a:q"$(one_of 1 2)" weight="$(one_of 1 300)" priority="$(one_of 3 4 5)" ;;
	7) a net move a:q1 b && a net move b:q1 a ;;
	8) a net queue a:q"$(one_of 1 2)" --remove ;;
	9) a net remove $near && install ;;
	10) newcomer ;;
	*) a net ls ;;
	esac
}

say "changes under load"
a net queue a:q1 priority=3
keeps_running a $programs/datagrams send 10.9.0.2 1 1000
keeps_running a $programs/datagrams send 10.9.0.2 2 64 0 1 3 # to the queue q1
keeps_running b $programs/datagrams send 10.9.0.2 3 1000 0 8
keeps_running b iperf3 -c 10.9.0.2 -p 5201 -P 2 -t 60
keeps_running deep/1/2/3 $programs/datagrams send 10.9.0.2 4 1472 500
check install "" install
declare -A made
for ((i = 0; i < 36; i++)); do
	kind=$(((5 * i + 7 * (i / 12)) % 12)) # all 12, in another order each time
	# Some are refused, such as the removal of a queue that is not there.
	change $kind > $out/change 2>&1 && made[$kind]=1
	sleep 0.1
done
check each-kind-of-change-was-made "${!made[*]}" [ ${#made[@]} = 12 ]
check it-is-still-ordered "$(kind $near)" is_ours $near
root() { a net ls --json | jq ".[] | select(.interface == \"$near\").domains[] | select(.cgid == 1).$1"; }
before=$(root sent_packets)
still_sends() { [ "$(root sent_packets)" -gt $((before + 20)) ]; }
check packets-flow-on "$before, then $(root sent_packets)" until_true 5 still_sends

say "no packet is left"
check the-senders-end "" until_true 5 no_senders
a net set $near rate=none
is_empty() { [ "$(tc -j -s qdisc show dev $near root | jq '.[0] | .qlen + .backlog')" = 0 ] && [ "$(root packets)" = 0 ]; }
check nothing-waits "$(tc -s qdisc show dev $near root | tail -n 1), $(root packets)" until_true 5 is_empty
# A full queue is thrown away each time. What the kernel keeps for reuse is some hundreds.
packets() { awk '$1 ~ /^skbuff_head_cache|^skbuff_fclone_cache/ { n += $2 } END { print n }' /proc/slabinfo; }
a net remove $near
filled=$(packets)
thrown=0 most=0
for i in {1..6}; do
	a net install $near --leaf "$(one_of fair codel fifo)" --rate 64kbit
	for port in {1..5}; do
		keeps_running a $programs/datagrams send 10.9.0.2 $port 1000
		keeps_running b $programs/datagrams send 10.9.0.2 $port 1000
	done
	sleep 0.5
	thrown=$((thrown + $(root packets)))
	now=$(packets)
	[ "$now" -le $most ] || most=$now
	((i % 2)) || ip link set $near down
	a net remove $near
	ip link set $near up
	until_true 5 no_senders
done > /dev/null
# 92 of each sender: as many as its socket has room for
check many-packets-waited "$thrown" [ "$thrown" -gt 3000 ]
check they-are-in-memory "$filled, then $most" [ "$most" -gt $((filled + 100)) ]
# below what half of one round's packets would make of it
is_as_before() { [ "$(packets)" -lt $(((filled + most) / 2)) ]; }
check none-stays-in-memory "$filled, then $(packets)" until_true 5 is_as_before

say "another network namespace"
install
ip link set $near netns far
check we-see-that-it-is-gone "" until_true 5 grep -q "interface $near is gone" $daemon_log
is_gone() { [ "$(a net ls --json | jq length)" = 0 ]; }
check it-is-ordered-no-more "$(a net ls --json)" is_gone
check it-has-no-qdisc-of-ours "" eval "! far tc qdisc show dev $near | grep -q aplomb"
ip -n far link set $near netns 1
ip addr add 10.9.0.1/24 dev $near
ip link set $near up
check it-can-be-installed-again "" install
check and-is-ordered "$(kind $near)" is_ours $near
stop_daemon
check as-before "$(kind $near)" is_kind noqueue $near
finish
