# Tests what the README names, on a kernel with sched_ext: `make run`, `make install`, a shipped
# spec that the administrator removes, and uninstalling. One CPU.
. /job/guest/lib.sh

clean=$(nr_bpf)
cp -r /job/tree /tmp/tree
mkdir /tmp/tree/target
cp /job/aplomb /job/aplomb-sim /tmp/tree/target/
as_before() { # NAME: stock scheduler, and no BPF program or map of ours
	check "$1-stock" "" until_true 5 stock
	check "$1-no-bpf" "was $clean" until_true 10 bpf_is "$clean"
}
begin() { # WORD…: starts the daemon by this command and waits until it is ready
	: > $daemon_log
	chrt -o 0 setsid "$@" > $daemon_log 2>&1 &
	daemon=$!
	daemon_await $daemon_log 120
}

play() { # a film, in the background: $movie
	chrt -o 0 mplayer -noconfig all -nolirc -noconsolecontrols -nosound -vo null -loop 0 \
		/lab/clips/light.mpg > /dev/null 2>&1 < /dev/null & movie=$!
	pids+=("$movie")
}

say "make run"
check run-starts "" begin /tmp/tree/scripts/run
check run-says-how-to-end "$(head -n 1 $daemon_log)" grep -q Ctrl-C $daemon_log
check run-attaches "" attached
check run-has-the-shipped-specs "" grep -q '"name": "mplayer"' <(/job/aplomb spec list --json)
kill -INT $daemon
wait $daemon
check run-ends-cleanly "status $?" [ $? = 0 ]
copies() { find /run -maxdepth 1 -name 'aplomb-specs.*'; }
check run-leaves-no-specs "$(copies)" until_true 10 eval 'none "$(copies)"'
as_before run

say "make install"
check installs "" eval '/tmp/tree/scripts/install /tmp/tree/target/aplomb > $out/installed'
check installs-files "$(wc -l < $out/installed)" within 10 "$(wc -l < $out/installed)" 1000
while read -r file; do
	[ -s "$file" ] || missing="$missing $file"
done < $out/installed
check nothing-missing "$missing" none "$missing"
check installed-simulator "" eval '/usr/bin/aplomb-sim --version > $out/simulator'
check installed-starts "" begin /usr/bin/aplomb daemon
check installed-attaches "" attached
shipped=$(aplomb spec list --json | grep -c '"name"')
check ships-specs "$shipped" within 100 "$shipped" 1000
play
check player-is-reserved "by the shipped spec" until_true 5 is_admitted $movie

say "the administrator removes a shipped spec"
check remove-a-shipped-spec "" aplomb spec remove mplayer
no_more() { ! is_task $movie; }
check removed-spec-is-not-used "$(aplomb spec show mplayer 2>&1 | head -n 2)" until_true 5 no_more
end_all # an emulated start beside a player takes twice as long
kill -INT $daemon
wait $daemon
as_before installed
check installed-starts-again "" begin /usr/bin/aplomb daemon
play
sleep 2
check removed-spec-stays-removed "over a restart" no_more
end_all
kill -INT $daemon
wait $daemon
as_before end
check uninstalls "" eval '/tmp/tree/scripts/install /tmp/tree/target/aplomb --uninstall > $out/uninstalled'
left=$(while read -r file; do [[ $file = /etc/* ]] || [ ! -e "$file" ] || echo "$file"; done < $out/installed)
check uninstall-leaves-nothing "$left" none "$left"
check uninstall-keeps-settings "" [ -s /etc/aplomb/aplomb.toml ]
finish
