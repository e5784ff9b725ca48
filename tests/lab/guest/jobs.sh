# jobs.sh JOB…: runs these jobs one after the other in one boot and on one start of the daemon. A
# start costs more time than most jobs do. The first job sees the daemon start: a job that sets up
# something before the start, or looks at what a start does, has to be the first.
while [ $# -gt 0 ]; do
	job=$1
	shift
	jobs_left=$#
	# shellcheck source=/dev/null # the job that is named
	. "/job/guest/$job.sh"
done
