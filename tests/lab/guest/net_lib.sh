# An interface to test on: sourced by net.sh and net_changes.sh.

far() { ip netns exec far "$@"; }
kind() { tc -j qdisc show dev "${1:-near}" root | jq -r '.[0].kind // "none"'; }
# The kernel rounds the times down each time that it takes what it has printed.
options() { tc -j qdisc show dev "$1" root | jq -c '.[0] | del(.handle, .refcnt, .options.target, .options.interval)'; }
is_ours() { [[ $(kind "${1:-near}") = aplomb.* ]]; }
is_kind() { [ "$(kind "$2")" = "$1" ]; } # KIND INTERFACE
flood() { # DOMAIN PORT SIZE [INTERVAL_US]: a sender there
	enter_domain "$1" $programs/datagrams send 10.9.0.2 "$2" "$3" ${4:+"$4"} &
	pids+=($!)
}
make_pair() { # WORD…: near, and its other end in a namespace; the words are near's
	modprobe veth
	ip netns add far
	ip link add near "$@" type veth peer name across netns far
	ip addr add 10.9.0.1/24 dev near
	ip link set near up
	ip -n far addr add 10.9.0.2/24 dev across
	ip -n far link set across up
}
