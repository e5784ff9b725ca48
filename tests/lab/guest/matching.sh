# Tests which tasks become interactive: by path, command, argument, application and kernel thread,
# and by inheritance (I), launch (P), threads and exec. One CPU.
. /job/guest/lib.sh

for name in early plain heir soft tool late; do program stay $name; done
for name in launcher heirs threads; do program family $name; done
program stay famous.elsewhere
mkdir -p $bin/copy $bin/x /opt/low /opt/up /opt/work /opt/merged
cp $bin/plain $bin/copy/plain
ln $bin/plain $bin/hardlink
ln -s $bin/plain $bin/symlink
cp $bin/plain $bin/x/famous
spec early 1ms/100ms
spec plain 1ms/100ms
spec heir 1ms/100ms 'inherit = true'
spec soft 1ms/100ms 'revocable = true'
spec tool 1ms/100ms 'launch = "interactive"'
spec launcher 1ms/100ms
spec heirs 1ms/100ms 'inherit = true'
spec threads 1ms/100ms
printf '[[spec]]\nname = "shield"\npath = "%s/shield"\nclass = "best-effort"\n' $bin > $specs/shield.toml
program stay shield
spec famous 1ms/100ms 'command = "famous"'
printf '[[spec]]\nname = "app"\napp = "org.example.Player"\ncpu = "1ms/100ms"\nrevocable = true\n' > $specs/app.toml
printf '[[spec]]\nname = "kswapd"\nkernel-thread = "kswapd*"\ncpu = "1ms/100ms"\n' > $specs/kswapd.toml
printf '#!/bin/bash\nread -r line < %s/never\n' $bin | tee $bin/script > $bin/other-script
mkfifo $bin/never
chmod +x $bin/script $bin/other-script
printf '[[spec]]\nname = "script"\npath = "/usr/bin/bash"\nargument = "%s/script"\ncpu = "1ms/100ms"\nrevocable = true\n' $bin > $specs/script.toml
modprobe overlay
mount -t tmpfs tmpfs /opt/up
mkdir /opt/up/upper /opt/up/work
cp /job/guest-programs/stay /opt/low/below
check overlay-mounts "" mount -t overlay overlay -o lowerdir=/opt/low,upperdir=/opt/up/upper,workdir=/opt/up/work /opt/merged
printf '[[spec]]\nname = "below"\npath = "/opt/merged/below"\ncpu = "1ms/100ms"\n' > $specs/below.toml
printf '[[spec]]\nname = "above"\npath = "/opt/merged/above"\ncpu = "1ms/100ms"\n' > $specs/above.toml
cp /job/guest-programs/stay /opt/merged/above

bg $bin/early
early=$!
start_daemon || { finish; exit; }

say "programs by file"
check running-at-attach "by $bin/early" until_true 3 has_spec $early early
bg $bin/plain; plain=$!
bg $bin/copy/plain; copy=$!
bg $bin/hardlink; hard=$!
bg $bin/symlink; soft=$!
bg /opt/merged/below; below=$!
bg /opt/merged/above; above=$!
sleep 0.5
check file-matched "" has_spec $plain plain
check file-is-admitted "" is_admitted $plain
check copy-not-matched "" none "$(task_of $copy spec)"
check hard-link-matched "" has_spec $hard plain
check symbolic-link-matched "" has_spec $soft plain
check overlay-lower-matched "" has_spec $below below
check overlay-upper-matched "" has_spec $above above
end_all

say "a replaced program"
cp $bin/plain $bin/plain.new
mv $bin/plain.new $bin/plain
sleep 1.5
bg $bin/plain; plain=$!
sleep 0.3
check replaced-program-matched "renamed over" has_spec $plain plain
rm $bin/plain
sleep 0.8
program stay plain
sleep 1.5
bg $bin/plain; plain=$!
sleep 0.3
check removed-and-new-program-matched "" has_spec $plain plain
end_all

say "scripts, applications, commands, kernel threads"
bg $bin/script; script=$!
bg $bin/other-script; other=$!
bg $bin/x/famous; famous=$!
mkdir /sys/fs/cgroup/app-flatpak-org.example.Player-123.scope
chrt -o 0 bash -c 'echo $$ > /sys/fs/cgroup/app-flatpak-org.example.Player-123.scope/cgroup.procs; exec /opt/t/copy/plain' & app=$!
pids+=("$app")
sleep 0.5
check script-matched "" has_spec $script script
check other-script-not-matched "" none "$(task_of $other spec)"
check command-matched "" has_spec $famous famous
check command-is-revocable "any program may have that name" [ "$(task_of $famous revocable)" = true ]
check application-matched "by its cgroup" has_spec $app app
check kernel-thread-matched "" has_spec "$(pgrep -x kswapd0)" kswapd
end_all

say "children"
bg $bin/heirs late 5; heirs=$!
bg $bin/launcher late 5; launcher=$!
sleep 0.5
check child-inherits "flag I, after 1 ms: inherited $(task_of "$(child_of $heirs)" inherited)" [ "$(task_of "$(child_of $heirs)" inherited)" = true ]
check child-is-best-effort "no flag I" none "$(task_of "$(child_of $launcher)" spec)"
end_all
bg $bin/heirs exec $bin/plain; heirs=$!
bg $bin/heirs exec $bin/copy/plain; unknown=$!
bg $bin/heirs exec $bin/shield; shield=$!
bg $bin/launcher exec $bin/copy/plain; launcher=$!
sleep 0.5
check exec-takes-its-own-spec "" has_spec "$(child_of $heirs)" plain
check exec-own-spec-not-inherited "inherited $(task_of "$(child_of $heirs)" inherited)" [ "$(task_of "$(child_of $heirs)" inherited)" = false ]
check exec-without-spec-inherits "flag I" [ "$(task_of "$(child_of $unknown)" inherited)" = true ]
check best-effort-spec-shields "" none "$(task_of "$(child_of $shield)" spec)"
check exec-without-spec-no-I "" none "$(task_of "$(child_of $launcher)" spec)"
end_all

say "flag P"
bg $bin/launcher exec $bin/tool; launcher=$!
bg $bin/tool; tool=$!
# As in a build, where a shell starts make and make starts a shell: launcher (interactive) starts
# family (no spec), which starts tool.
bg $bin/launcher exec /job/guest-programs/family exec $bin/tool; build=$!
sleep 0.5
check P-from-interactive "" has_spec "$(child_of $launcher)" tool
check P-from-best-effort "" none "$(task_of $tool spec)"
check P-two-steps-away "not for what a build starts" none "$(task_of "$(child_of "$(child_of $build)")" spec)"
end_all

say "threads and zombies"
bg $bin/threads threads 30; threads=$!
sleep 0.5
check threads-share-one-server "threads $(task_of $threads threads)" [ "$(task_of $threads threads)" = 31 ]
check threads-take-one-place "" [ "$(/job/aplomb status --json | grep -c '"spec": "threads"')" = 1 ]
bg $bin/threads reexec $bin/plain; reexec=$!
sleep 0.5
check exec-from-a-thread "" has_spec $reexec plain
check exec-from-a-thread-leaves-one "threads $(task_of $reexec threads)" [ "$(task_of $reexec threads)" = 1 ]
bg $bin/heirs zombie 5; heirs=$!
sleep 0.5
zombie=$(child_of $heirs)
check there-is-a-zombie "" grep -q 'State:.*Z' /proc/"$zombie"/status
check zombie-holds-nothing "" none "$(task_of "$zombie" spec)"
end_all

say "specs that come and go"
bg $bin/late; late=$!
sleep 0.3
check no-spec-yet "" none "$(task_of $late spec)"
spec late 1ms/100ms
check new-spec-takes-running-program "" until_true 4 has_spec $late late
spec late 2ms/100ms
spec_changed() { [ "$(task_of $late runtime_ns)" = 2000000 ]; }
check changed-spec-takes-running-program "" until_true 4 spec_changed
rm $specs/late.toml
gone() { ! is_task $late; }
check removed-spec-leaves-program "" until_true 4 gone
check program-lives-on "" [ -d /proc/$late ]
end_all

say "what is left"
kernel_thread_only() { [ "$(nr_tasks)" = 1 ]; }
check table-is-empty "but for the kernel thread" until_true 3 kernel_thread_only
for name in matched inherited admitted exited; do
	check counted-$name "$(counter $name)" [ "$(counter $name)" -gt 0 ]
	check event-$name "" grep -q "\"event\":\"$name\"" <(/job/aplomb log --json)
done
check event-has-its-numbers "" grep -q '"bandwidth_ppm":10000,.*"event":"admitted",.*"r_load_ppm":.*"s_load_ppm":' <(/job/aplomb log --json)
/job/aplomb log --json > $out/log
check still-attached "" attached
end_job
