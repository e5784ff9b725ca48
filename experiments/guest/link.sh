# link.sh - steps on a link that is slower than its senders. harness.sh sources this.
#
# The interface near is here, in the way of two network namespaces: the modem, which forwards at the
# link's rate from a large buffer, and far, where the packets arrive. The program that matters is in
# the cgroup /program, its load in /load. Datagrams to port 1 are the program's, for the queueing
# disciplines of the kernel that are told by the port.

far() { ip netns exec far "$@"; }
modem() { ip netns exec modem "$@"; }

# A link of RATE kbit a second behind a buffer of BUFFER bytes; RATE "-": as fast as it goes.
make_link() { # RATE BUFFER
	modprobe -a veth sch_tbf sch_fq_codel sch_cake sch_htb sch_hfsc sch_drr cls_u32 || fail "$name: no modules"
	ip netns add modem && ip netns add far &&
		ip link add near type veth peer name inside netns modem &&
		ip -n modem link add outside type veth peer name across netns far &&
		ip addr add 10.1.0.1/24 dev near && ip -n modem addr add 10.1.0.2/24 dev inside &&
		ip -n modem addr add 10.2.0.2/24 dev outside && ip -n far addr add 10.2.0.1/24 dev across &&
		ip link set near up && ip -n modem link set inside up &&
		ip -n modem link set outside up && ip -n far link set across up &&
		ip route add 10.2.0.0/24 via 10.1.0.2 && ip -n far route add default via 10.2.0.2 &&
		modem sysctl -qw net.ipv4.ip_forward=1 || fail "$name: no link"
	[ "$1" = - ] || modem tc qdisc add dev outside root tbf rate "$1kbit" burst 5kb limit "$2" || fail "$name: no modem"
}
end_link() {
	ip netns del far
	ip netns del modem
	until_true 5 no_link || fail "$name: the interface near stays"
}
no_link() { [ ! -e /sys/class/net/near ]; }

# KIND RATE WEIGHTS: gives near that queueing discipline, at RATE kbit a second; "-": no rate.
# WEIGHTS of the program and its load, where there can be some.
discipline() {
	local kind=$1 rate=$2 first=${3%:*} second=${3#*:} slow=() parent=root all
	all=$((first + second))
	if [ "$rate" != - ] && [[ $kind = fifo || $kind = fq_codel ]]; then
		tc qdisc add dev near root handle 1: tbf rate "${rate}kbit" burst 5kb limit 150kb || fail "$name: no tbf"
		parent="parent 1:1"
	fi
	case $kind in
	fifo) [ "$parent" = root ] || return 0; tc qdisc add dev near root pfifo limit 1000 ;;
	fq_codel) tc qdisc add dev near $parent fq_codel ;;
	fq) tc qdisc add dev near root fq ;;
	cake) tc qdisc add dev near root cake bandwidth "${rate}kbit" besteffort ;;
	htb | hfsc)
		slow=(sc rate) # hfsc
		[ $kind = hfsc ] || slow=(htb rate)
		tc qdisc add dev near root handle 2: $kind default 20 || fail "$name: no $kind"
		if [ $kind = htb ]; then
			tc class add dev near parent 2: classid 2:1 htb rate "${rate}kbit" burst 5kb &&
				tc class add dev near parent 2:1 classid 2:10 htb rate $((rate * first / all))kbit ceil "${rate}kbit" burst 2kb quantum $((1514 * first / second + 1514)) &&
				tc class add dev near parent 2:1 classid 2:20 htb rate $((rate * second / all))kbit ceil "${rate}kbit" burst 2kb quantum $((1514 * second / first + 1514))
		else
			tc class add dev near parent 2: classid 2:1 hfsc sc rate "${rate}kbit" ul rate "${rate}kbit" &&
				tc class add dev near parent 2:1 classid 2:10 hfsc sc rate $((rate * first / all))kbit &&
				tc class add dev near parent 2:1 classid 2:20 hfsc sc rate $((rate * second / all))kbit
		fi || fail "$name: no classes of $kind"
		by_port 2: 2:10 2:20
		;;
	drr)
		tc qdisc add dev near root handle 1: htb default 1 &&
			tc class add dev near parent 1: classid 1:1 htb rate "${rate}kbit" burst 5kb &&
			tc qdisc add dev near parent 1:1 handle 2: drr &&
			tc class add dev near parent 2: classid 2:10 drr quantum $((1600 * first / 100)) &&
			tc class add dev near parent 2: classid 2:20 drr quantum $((1600 * second / 100)) || fail "$name: no drr"
		by_port 2: 2:10 2:20
		;;
	aplomb | aplomb-fifo)
		[ "$rate" = - ] && slow=() || slow=(--rate "${rate}kbit")
		[ $kind = aplomb ] || slow+=(--leaf fifo)
		chrt -o 0 /job/aplomb net install near "${slow[@]}" > "$out/install" 2>&1 || fail "$name: $(< "$out/install")"
		domain_set /program "net.weight=$first"
		domain_set /load "net.weight=$second"
		;;
	*) fail "$name: no queueing discipline $kind" ;;
	esac || fail "$name: near does not take $kind"
	tc qdisc show dev near > "$out/discipline"
}
# The second filter is for all protocols: DRR drops what no filter has, so ARP's packets, too.
by_port() { # PARENT PROGRAM'S LOAD'S
	tc filter add dev near parent $1 protocol ip prio 1 u32 match ip dport 1 0xffff flowid $2 &&
		tc filter add dev near parent $1 protocol all prio 2 u32 match u32 0 0 flowid $3 || fail "$name: no filters"
}

# The two ends of link, with its variables.
start_load() {
	local i
	if [ "$load" = bulk ]; then
		far chrt -o 0 iperf3 -s -p 5201 > /dev/null &
		receivers+=($!)
		sleep 0.2
		/job/enter load chrt -o 0 iperf3 -c 10.2.0.1 -p 5201 -P "$count" -t $((seconds + 10)) > "$out/bulk-said" 2>&1 &
		senders+=($!)
		return
	fi
	for ((i = 0; i < count; i++)); do
		/job/enter load chrt -o 0 /job/datagrams send 10.2.0.1 2 ${load//\// } &
		senders+=($!)
	done
}
start_program() {
	local sends words
	IFS=/ read -r -a words <<< "$program"
	case $program in
	requests/*)
		far chrt -o 0 /job/requests receive 1 $((seconds * 1000)) 3000 > "$out/program" &
		counts=$!
		sleep 0.2
		sends=(/job/requests send 10.2.0.1 1 "${words[@]:1}")
		;;
	first/*) sends=(ionice -c 1 -n 0 /job/stream "/dev/${words[1]}" 10.2.0.1 1) ;;
	stream/*) sends=(/job/stream "/dev/${words[1]}" 10.2.0.1 1) ;;
	*) sends=(/job/datagrams send 10.2.0.1 1 "${words[@]}") ;;
	esac
	/job/enter "program=$group" chrt -o 0 "${sends[@]}" &
	senders+=($!)
}

# link RATE BUFFER KIND SHAPED WEIGHTS SECONDS PROGRAM COUNT LOAD GROUP: the program and COUNT times
# the load send for SECONDS. RATE, BUFFER: of the modem; KIND, SHAPED (a rate, or -), WEIGHTS: of
# near. PROGRAM and LOAD: SIZE/INTERVAL_US of datagrams, or SIZE/INTERVAL_US/SEGMENTS (datagrams.c);
# LOAD may be "bulk", a TCP upload, and PROGRAM also requests/BYTES/NUMBER, a web server
# (requests.c), or stream/DISK or first/DISK, a film from there (stream.c), its reads first in the
# kernel's order. GROUP: the program's cgroup, program, one below it, or load. Leaves what arrived:
# program, load, and all in bytes, with the seconds: bulk. Within a step that made the cgroups it
# leaves them.
link() {
	local kind=$3 shaped=$4 weights=$5 seconds=$6 program=$7 count=$8 load=$9 group=${10} made='' senders=() receivers=() counts='' before since all
	make_link "$1" "$2"
	[ -d "$cgroups/program" ] || { two_groups; made=1; }
	mkdir -p "$cgroups/$group" || fail "$name: no cgroup /$group"
	discipline "$kind" "$shaped" "$weights"
	start_load
	start_program
	sleep 2
	# The harness runs at real-time priority, and so does what it starts until chrt. The senders
	# stand still meanwhile, and then send at once what they are late with. So the receivers
	# count a second later. A web server's receiver is there first, and counts then, too.
	before=$(passed)
	since=${EPOCHREALTIME/./}
	[ -z "$at_phase" ] || $at_phase load
	if [ -z "$counts" ]; then
		far chrt -o 0 /job/datagrams receive 1 $((seconds * 1000)) 1000 > "$out/program" &
		counts=$!
	fi
	receivers+=("$counts")
	if [ "$load" != bulk ]; then
		far chrt -o 0 /job/datagrams receive 2 $((seconds * 1000)) 1000 > "$out/load" &
		wait $!
	fi
	wait "$counts"
	[ -z "$at_phase" ] || $at_phase after
	all=$(($(passed) - before))
	[ "$all" -gt 0 ] || fail "$name: nothing arrived"
	# As many as in SECONDS, at the rate of the time between the two readings.
	echo "$((all * seconds * 1000000 / (${EPOCHREALTIME/./} - since))) $seconds" > "$out/bulk"
	kill -KILL "${senders[@]}" "${receivers[@]}" 2> /dev/null
	wait "${senders[@]}" "${receivers[@]}" 2> /dev/null
	[[ $kind != aplomb* ]] || timeout 10 /job/aplomb net ls > "$out/net-ls" 2>&1
	end_link
	[ -z "$made" ] || end_groups "$group"
}
end_groups() { # GROUP: the program's cgroup, those above it, and the load's
	local group=$1
	while [[ $group = */* ]]; do
		until_true 10 rmdir "$cgroups/$group" || fail "$name: the cgroup /$group cannot be removed"
		group=${group%/*}
	done
	no_groups
}
passed() { far cat /sys/class/net/across/statistics/rx_bytes; } # bytes that arrived

# sends KIND RATE SECONDS GROUP: two programs send the smallest datagrams, as fast as they can, to
# an interface that takes all packets and forgets them. So a packet's cost is that of its system
# call and of the queueing discipline. KIND, RATE: of near; GROUP: the program's cgroup, as in link.
# Leaves the packets that near took, and the us of that time: sent.
sends() {
	local kind=$1 rate=$2 seconds=$3 group=$4 senders=() before since
	modprobe -a dummy sch_fq sch_fq_codel sch_cake sch_htb sch_hfsc cls_u32 || fail "$name: no modules"
	ip link add near type dummy && ip addr add 10.1.0.1/24 dev near && ip link set near up || fail "$name: no link"
	two_groups
	mkdir -p "$cgroups/$group" || fail "$name: no cgroup /$group"
	discipline "$kind" "$rate" 100:100
	/job/enter "program=$group" chrt -o 0 /job/datagrams send 10.1.0.2 1 18 0 &
	senders+=($!)
	/job/enter load chrt -o 0 /job/datagrams send 10.1.0.2 2 18 0 &
	senders+=($!)
	sleep 1
	before=$(taken)
	since=${EPOCHREALTIME/./}
	sleep "$seconds"
	echo "$(($(taken) - before)) $((${EPOCHREALTIME/./} - since))" > "$out/sent"
	kill -KILL "${senders[@]}"
	wait "${senders[@]}" 2> /dev/null
	[ "$kind" != aplomb ] || timeout 10 /job/aplomb net ls > "$out/net-ls" 2>&1
	ip link del near || fail "$name: the interface near stays"
	end_groups "$group"
}
taken() { number_in /sys/class/net/near/statistics/tx_packets; }
