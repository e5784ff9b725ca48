# Tests that the scheduler survives all changes of domains: random changes, processes that move in
# any state, cgroups that vanish, users without the right, more domains than places. $PARTS selects
# some of these; each is a file domain_PART.sh. One CPU in virtual time.
. /job/guest/lib.sh
. /job/guest/tree.sh

start_daemon || { finish; exit; }
alone=$(domains)

for part in ${PARTS:-random moves vanish users limit threaded}; do . "/job/guest/domain_$part.sh"; done

check still-attached "$(state)" attached
end_job
