# Tests the order of packets: shares by domain, delay, room, and that an interface gets back what it
# had, however the daemon ends. One CPU; a veth pair whose other end is in a network namespace.
. /job/guest/lib.sh
. /job/guest/net_lib.sh

no_ops() { ! { bpftool struct_ops show && bpftool cgroup show $cgroups; } | grep -q aplomb_net; }
fails() { ! "$@"; }
a_has() { # PATTERN ARGUMENT…: what aplomb prints
	local pattern=$1
	shift
	a "$@" | grep -q "$pattern"
}
sent_by() { # DOMAIN FIELD: of interface near
	local id
	id=$(stat -c %i "$cgroups/$1")
	a net ls --json | jq ".[] | select(.interface == \"near\").domains[] | select(.cgid == $id).$2"
}
count() { # MS PORT…: what comes to each port in MS, into $out/came.PORT
	local ms=$1 port waiting=()
	shift
	for port in "$@"; do
		far chrt -o 0 $programs/datagrams receive "$port" "$ms" > "$out/came.$port" &
		waiting+=($!)
	done
	wait "${waiting[@]}"
}
came() { jq ".$2" "$out/came.$1"; } # PORT FIELD
part() { echo $((1000 * $1 / ($1 + $2))); }  # A B: thousandths that A is of both

modprobe -a dummy sch_fq_codel sch_htb
make_pair
ip link add spare type dummy
ip link set spare up
mkdir -p $cgroups/{a,b,film,deep/1/2/3/4/5/6/7/8} /etc/aplomb
pids=()

say "a wrong setting is refused"
printf '[[net]]\ninterface = "near"\nrate = "fast"\n' > /etc/aplomb/aplomb.toml
refused wrong-rate 2 'aplomb.toml:3: field "net.rate": "fast" is no rate' \
	timeout 20 /job/aplomb daemon --specs $specs
rm /etc/aplomb/aplomb.toml
start_daemon || { finish; exit; }

say "install and remove"
check nothing-is-changed-yet "$(kind)" is_kind noqueue near
check a-user-may-not "" fails as_user /job/aplomb net install near
check and-changes-nothing "$(kind)" is_kind noqueue near
check no-such-interface "" fails a net install nowhere
check install "" a net install near --rate 10Mbit
check it-is-there "$(kind)" is_ours
check twice-is-refused "" fails a net install near
as_user /job/aplomb net ls > $out/ls
check a-user-sees-it "$(head -n 1 $out/ls)" grep -q '^near: rate 10Mbit, fair' $out/ls
silent=$(a net ls --json | jq '[.[].domains[] | select(.cgid == 0 and .sent_packets == 0)] | length')
check only-domains-that-sent-are-shown "$silent" [ "$silent" = 0 ]
segments() { ip -d -j link show near | jq '.[0].gso_max_segs'; }
check packets-are-small-on-a-slow-link "$(segments)" [ "$(segments)" = 1 ]
a net set near rate=40Mbit
check larger-on-a-faster-one "$(segments)" [ "$(segments)" = 3 ]
a net set near rate=none
check as-before-without-a-rate "$(segments)" [ "$(segments)" = 65535 ]
a net set near rate=1Mbit
check remove "" a net remove near
check packets-are-as-before "$(segments)" [ "$(segments)" = 65535 ]
check as-before "$(kind)" is_kind noqueue near
tc qdisc add dev spare root fq_codel limit 500 target 7ms noecn
before=$(options spare)
a net install spare
check one-with-options-is-replaced "$(kind spare)" is_ours spare
a net remove spare
check and-comes-back "$(options spare)" [ "$(options spare)" = "$before" ]
tc qdisc replace dev spare root handle 1: htb default 1
tc class add dev spare parent 1: classid 1:1 htb rate 1mbit
check one-with-classes-is-left-alone "" fails a net install spare
check and-is-still-there "$(kind spare)" is_kind htb spare
tc qdisc del dev spare root

say "shares by weight (QLinux Fig. 7a)"
a net install near --rate 10Mbit
for weight in 100 400 900; do
	a domain set a net.weight=100
	a domain set b net.weight=$weight
	flood a 1 1000
	flood b 2 1000
	sleep 0.5
	count 10000 1 2
	end_all
	right=$((1000 * weight / (weight + 100)))
	got=$(part "$(came 2 bytes)" "$(came 1 bytes)")
	check share-of-$weight "$got of 1000, right: $right" within $((right - 10)) "$got" $((right + 10))
done
all=$(($(came 1 packets) + $(came 2 packets)))
# 1,042 bytes each on a link of 10 Mbit a second
check the-rate-is-kept "$all of 11996 packets" within 11800 $all 12050
a domain set b net.weight=none
check a-weight-outlives-its-removal-by-nobody "" [ "$(sent_by b weight)" = 100 ]

say "a ceiling"
a domain set a net.max=2Mbit
check the-ceiling-is-shown "$(sent_by a max)" until_true 3 eval '[ "$(sent_by a max)" = 2000000 ]'
flood a 1 1000
flood b 2 1000
sleep 0.5
count 5000 1 2
end_all
# 2 Mbit are 240 packets of 1,042 bytes a second
check a-ceiling-holds "$(came 1 packets) of 1200 packets" within 1180 "$(came 1 packets)" 1215
check the-others-have-the-rest "$(came 2 packets) of 4798 packets" within 4700 "$(came 2 packets)" 4815
a domain set a net.max=none

say "what arrives is counted by domain"
received_by() { # DOMAIN: bytes, by interface near
	local id
	id=$(stat -c %i "$cgroups/$1")
	a net ls --json | jq "[.[] | select(.interface == \"near\").received[] | select(.cgid == $id).bytes] | add // 0"
}
receive_in() { # DOMAIN PORT WORD…: a receiver there; the words send to it, 200 datagrams a second
	local domain=$1 port=$2
	shift 2
	enter_domain "$domain" $programs/datagrams receive "$port" 2000 > "$out/came.$port" &
	sleep 0.2
	"$@" chrt -o 0 $programs/datagrams send 10.9.0.1 "$port" 1000 5000 &
	pids+=($!)
}
receive_in a 7 far
receive_in deep/1/2 8 far
receive_in b 9 env # over the loopback
sleep 3
end_all
counts() { # DOMAIN PORT: what its receiver has seen, headers included, and perhaps two more
	local all=$((1028 * $(came "$2" packets)))
	[ "$(came "$2" packets)" -gt 100 ] && within $all "$(received_by "$1")" $((all + 2 * 1028))
}
check received "$(received_by a) bytes, $(cat "$out/came.7")" counts a 7
check received-below "$(received_by deep/1/2) bytes, $(cat "$out/came.8")" counts deep/1/2 8
check by-another-interface "$(received_by b) bytes, $(cat "$out/came.9")" [ "$(received_by b)" = 0 ]
check the-one-above-has-it-too "$(a net ls)" eval "a net ls | grep -q '^/deep  .* 0\.[1-9] MiB$'"

. /job/guest/net_queues.sh

say "whatever the size (Fig. 7b), and however deep (Fig. 13b)"
flood a 1 64
flood b 2 1472
sleep 0.5
count 10000 1 2
end_all
# bytes on the link: 42 of headers each
small=$(($(came 1 bytes) + 42 * $(came 1 packets)))
large=$(($(came 2 bytes) + 42 * $(came 2 packets)))
check share-of-small-packets "$small beside $large" within 490 "$(part $small $large)" 510
flood a 1 1000
flood deep/1/2/3/4/5/6/7/8 2 1000
sleep 0.5
count 10000 1 2
end_all
deep=$(part "$(came 2 bytes)" "$(came 1 bytes)")
check share-nine-levels-deep "$deep of 1000" within 490 "$deep" 510

say "whatever kind of packet"
sends() { # DOMAIN WORD…: a sender there
	enter_domain "$@" > /dev/null 2>&1 &
	pids+=($!)
}
bytes_sent() { sent_by "$1" sent_bytes; }
have_half_each() { # NAME: a and b have sent as much
	local a b got
	sleep 0.5
	a=$(bytes_sent a) b=$(bytes_sent b)
	sleep 4
	got=$(part $(($(bytes_sent a) - a)) $(($(bytes_sent b) - b)))
	check "$1" "$got of 1000" within 490 "$got" 510
	end_all
}
ip addr add fd09::1/64 dev near nodad
ip -n far addr add fd09::2/64 dev across nodad
far iperf3 -s -D -p 5206
flood b 1 1000
sends a iperf3 -6 -c fd09::2 -p 5206 -u -b 0 -l 1000 -t 60
have_half_each ipv6
flood b 1 1000
sends a iperf3 -6 -c fd09::2 -p 5206 -P 4 -t 60
have_half_each tcp-over-ipv6
ip link add link near name near.5 type vlan id 5
ip addr add 10.7.0.1/24 dev near.5
ip link set near.5 up
ip -n far link add link across name across.5 type vlan id 5
ip -n far addr add 10.7.0.2/24 dev across.5
ip -n far link set across.5 up
flood b 1 1000
sends a $programs/datagrams send 10.7.0.2 2 1000
have_half_each vlan
ip link del near.5
ip route add 239.9.0.0/16 dev near
flood b 1 1000
sends a $programs/datagrams send 239.9.0.1 2 1000
have_half_each multicast
ip route del 239.9.0.0/16 dev near
until_true 5 eval '[ "$(sent_by a packets)" = 0 ]'
before=$(sent_by a sent_packets)
( enter_domain a ping -q -c 10 -i 0.1 10.9.0.2 ) > $out/ping
after=$(sent_by a sent_packets)
check raw-sockets-count-for-their-domain "$before, then $after packets" [ $((after - before)) = 10 ]

say "delay: a stream beside 32 senders (Fig. 8)"
for n in {1..32}; do
	flood a $((100 + n)) 1000
done
flood film 1 1000 5400 # 1.48 Mbit a second
sleep 1
count 10000 1
cp $out/came.1 $out/film
end_all
# 1,852 in 10 s. A packet waits for one of the other domain, 0.83 ms, and takes as long itself.
check the-stream-loses-nothing "$(< $out/film)" within 1845 "$(came 1 packets)" 1860
check its-packets-are-in-time "$(came 1 most_us) us" within 0 "$(came 1 most_us)" 10000

say "room: a newcomer beside 64 domains that fill theirs"
for n in {1..64}; do
	mkdir -p $cgroups/crowd/$n
	flood crowd/$n $((100 + n)) 200
done
sleep 2
far ping -q -c 20 -i 0.1 10.9.0.1 > $out/ping
check a-newcomer-has-room "$(grep -o '[0-9]*% packet loss.*' $out/ping)" grep -q ' 0% packet loss' $out/ping
end_all
rmdir $cgroups/crowd/* $cgroups/crowd

say "a transfer does not delay itself for long"
far iperf3 -s -D -p 5201
a net remove near
a net install near
a net set near rate=5Mbit
enter_domain a iperf3 -c 10.9.0.2 -p 5201 -t 8 > $out/iperf &
transfer=$!
sleep 4
wait $transfer
rate=$(awk '/receiver/ { print int($7 * 100) }' $out/iperf)
check a-transfer-has-the-link "0.01 Mbit: $rate" within 350 "$rate" 500
check its-queue-stays-short "$(sent_by a mean_delay_ns) ns" within 0 "$(sent_by a mean_delay_ns)" 20000000

say "more flows than there are nodes"
a net remove near
a net install near
timeout 60 $programs/datagrams flows 10.9.0.2 60000 1000
flows=$(a net ls --json | jq '.[] | select(.interface == "near") | [.without_node, (.domains[] | select(.cgid == 1) | .sent_packets, .packets)] | @sh' -r)
# 1,024 of a domain's flows have a node; packets of two that share one are not lost
check none-is-lost "without node, sent, waiting: $flows" [ "${flows% * *}${flows##* }" = 00 ]
check all-flows-were-sent "$flows" within 60000 "$(cut -d' ' -f2 <<< "$flows")" 60100
for n in {1..600}; do
	mkdir $cgroups/b/$n
	enter_domain b/$n $programs/datagrams flows 10.9.0.2 30 1 &
	wait $!
done
nodes=$(a net ls --json | jq '.[] | select(.interface == "near") | "\(.domains | length) \(.without_node)"' -r)
# 600 domains with two nodes and 30 flows each: more than there are
check nodes-are-used-again "domains, packets without a node: $nodes" [ "${nodes##* }" = 0 ]
rmdir $cgroups/b/*/
backlog=$(tc -j -s qdisc show dev near root | jq '.[0] | .qlen + .backlog')
check counts-agree "$backlog" [ "$backlog" = 0 ]

say "another program's qdisc is left alone"
a net set near rate=10Mbit
tc qdisc replace dev near root fq_codel
check we-say-so "" until_true 5 grep -q 'another program gave near the queueing discipline fq_codel' $daemon_log
check and-leave-it "$(kind)" is_kind fq_codel near
check packets-are-large-again "$(segments)" [ "$(segments)" = 65535 ]
check we-have-none "" [ "$(a net ls --json | jq length)" = 0 ]
tc qdisc del dev near root

say "the interface goes away under load"
ip link add gone type veth peer name there netns far
ip addr add 10.8.0.1/24 dev gone
ip link set gone up
ip -n far addr add 10.8.0.2/24 dev there
ip -n far link set there up
a net install gone --rate 1Mbit
enter_domain a $programs/datagrams send 10.8.0.2 9 1000 &
pids+=($!)
sleep 0.5
ip link set gone down
ip link set gone up
check down-and-up "$(kind gone)" is_ours gone
ip link del gone
check we-see-it "" until_true 5 grep -q 'interface gone is gone' $daemon_log
end_all

say "the daemon is killed under load"
a net install near --rate 10Mbit
tc qdisc add dev spare root fq_codel limit 500 target 7ms noecn
before=$(options spare)
a net install spare
flood a 1 1000
sleep 0.5
kill -KILL $daemon
came_back() { is_kind noqueue near && [ "$(options spare)" = "$before" ] && [ "$(segments)" = 65535 ]; }
check within-a-second-all-is-as-before "$(kind) $(kind spare)" until_true 1 came_back
wait $daemon 2> /dev/null
count 500 1
check packets-flow-on "$(came 1 packets)" [ "$(came 1 packets)" -gt 1000 ]
check no-qdisc-of-ours-is-loaded "" until_true 5 no_ops
check no-journal-is-left "$(ls /run/aplomb/net)" [ -z "$(ls /run/aplomb/net)" ]
end_all
tc qdisc del dev spare root

say "the settings: as soon as the interface is there"
printf '[[net]]\ninterface = "late"\nrate = "1Mbit"\nleaf = "fifo"\n' > /etc/aplomb/aplomb.toml
cp $daemon_log $out/first.log
daemon=
start_daemon || { finish; exit; }
ip link add late type dummy
check a-late-interface-is-ordered "" until_true 5 is_ours late
check as-the-settings-say "" a_has '^late: rate 1Mbit, fifo' net ls
check a-queue-outlives-the-daemon "" a_has '^/a:q1 takes: priority 3, attached sockets$' net ls
stop_daemon
ip link add other type dummy
check the-end-puts-it-back "$(kind late)" is_kind "$(kind other)" late
daemon=
rm /etc/aplomb/aplomb.toml
finish
