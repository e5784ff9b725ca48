/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rotating SIZE_MB RPM SEEK_US RATE DEPTH AGE_MS - a disk with a head and a platter (spindle.h),
 * whose time is this machine's clock. Prints the name of its block device, as in ublkb0, when that
 * is ready, and serves it in the background until it is killed.
 *
 * RATE: the media rate, bytes a second. DEPTH: requests that the disk holds. AGE_MS: 0: it serves
 * them in the order in which they came. Else it orders them, as a disk with native command queueing
 * does: it takes the one whose first byte comes under the head first. But if the oldest came AGE_MS
 * ago or more, it takes that one. Makers do not publish their rules; this is the common simple one.
 *
 * A ublk server (Documentation/block/ublk.rst): the kernel completes a command of the server's ring
 * for each request, and the server answers with a command that completes the request. The data lie
 * in the server's memory. All of it is allocated and locked at the start. The server copies the
 * data of a request during the request's mechanical time, and answers when that is over.
 *
 * It runs at SCHED_FIFO and above all that a guest runs: to the guest it is hardware.
 */
#define _GNU_SOURCE /* sched_setaffinity */
#include <fcntl.h>
#include <liburing.h>
#include <linux/ublk_cmd.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "lib.h"
#include "spindle.h"

/* Debian 12's header is Linux 6.1's, and lacks these. */
#ifndef UBLK_F_USER_COPY
#define UBLK_F_CMD_IOCTL_ENCODE (1UL << 6)
#define UBLK_F_USER_COPY (1UL << 7)
#define UBLK_IO_BUF_BITS 25
#endif
#define CONTROL(number) _IOWR('u', number, struct ublksrv_ctrl_cmd)
#define REQUEST(number) _IOWR('u', number, struct ublksrv_io_cmd)

#define PRIORITY 50
#define MOST_DEPTH 256
#define MOST_REQUEST (1 << 20)
#define PART (64 << 10)  /* 0.16 ms of the timing CPU */
#define LOGICAL_SHIFT 12 /* blocks of 4 KiB, as those of the lab's other disks */
/* Of completions that are no request's: those have their tag, below MOST_DEPTH. */
#define TIMER MOST_DEPTH
#define STARTED (MOST_DEPTH + 1)

/* The request that the head is busy with. */
struct request {
	unsigned int tag;
	int operation;
	int64_t offset, bytes, copied;
	int64_t done; /* when its mechanical time is over */
	int result;
};

struct server {
	struct io_uring ring;
	int control, device; /* /dev/ublk-control, /dev/ublkcN */
	unsigned int id;     /* N */
	unsigned int depth;
	const struct ublksrv_io_desc *requests; /* by tag; the kernel writes them */
	char *data;
	struct spindle spindle;
	int64_t age;
	/* The requests that wait in the disk, in the order in which they came. */
	struct waiting {
		unsigned int tag;
		int64_t came;
	} queue[MOST_DEPTH];
	unsigned int waiting;
	int is_serving;
	struct request serving;
	struct __kernel_timespec wake;
};

/* --- the ring ---------------------------------------------------------------------------------*/

static void give_up(const char *what, int error)
{
	errno = error;
	fail(what);
}

static struct io_uring_sqe *entry(struct server *s)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&s->ring);

	if (!sqe)
		give_up("rotating: the ring", EBUSY);
	return sqe;
}

static struct io_uring_sqe *command(struct server *s, int file, uint32_t number, uint64_t name)
{
	struct io_uring_sqe *sqe = entry(s);

	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, file, NULL, 0, 0);
	sqe->cmd_op = number;
	sqe->user_data = name;
	return sqe;
}

/* What /dev/ublk-control is told about the device. */
static void control_command(struct server *s, uint32_t number, void *what, size_t bytes,
			    uint64_t value)
{
	struct ublksrv_ctrl_cmd words = {
		.dev_id = s->id,
		.queue_id = (uint16_t)-1,
		.len = (uint16_t)bytes,
		.addr = (uint64_t)(uintptr_t)what,
		.data = { value },
	};
	struct io_uring_sqe *sqe = command(s, s->control, CONTROL(number), STARTED);

	memcpy(sqe->cmd, &words, sizeof(words));
}

static void control(struct server *s, const char *name, uint32_t number, void *what, size_t bytes)
{
	struct io_uring_cqe *cqe;
	int error;

	control_command(s, number, what, bytes, 0);
	io_uring_submit(&s->ring);
	error = io_uring_wait_cqe(&s->ring, &cqe);
	if (!error) {
		error = cqe->res;
		io_uring_cqe_seen(&s->ring, cqe);
	}
	if (error < 0)
		give_up(name, -error);
}

/* Asks for the next request with this tag; with UBLK_IO_COMMIT_AND_FETCH_REQ, answers the last. */
static void next_request(struct server *s, uint32_t number, unsigned int tag, int result)
{
	struct ublksrv_io_cmd words = { .tag = (uint16_t)tag, .result = result };
	struct io_uring_sqe *sqe = command(s, s->device, REQUEST(number), tag);

	memcpy(sqe->cmd, &words, sizeof(words));
}

/* --- the device -------------------------------------------------------------------------------*/

static void add_device(struct server *s)
{
	struct ublksrv_ctrl_dev_info info = {
		.nr_hw_queues = 1,
		.queue_depth = (uint16_t)s->depth,
		.max_io_buf_bytes = MOST_REQUEST,
		.dev_id = (uint32_t)-1,
		.flags = UBLK_F_CMD_IOCTL_ENCODE | UBLK_F_USER_COPY,
	};
	struct ublk_params params = {
		.len = sizeof(params),
		.types = UBLK_PARAM_TYPE_BASIC,
		.basic = {
			.attrs = UBLK_ATTR_ROTATIONAL,
			.logical_bs_shift = LOGICAL_SHIFT,
			.physical_bs_shift = LOGICAL_SHIFT,
			.io_min_shift = LOGICAL_SHIFT,
			.max_sectors = MOST_REQUEST / SECTOR,
			.dev_sectors = (uint64_t)(s->spindle.size / SECTOR),
		},
	};
	char path[32];
	void *requests;

	s->id = (unsigned int)-1;
	control(s, "rotating: ADD_DEV", UBLK_CMD_ADD_DEV, &info, sizeof(info));
	s->id = info.dev_id;
	control(s, "rotating: SET_PARAMS", UBLK_CMD_SET_PARAMS, &params, sizeof(params));
	snprintf(path, sizeof(path), "/dev/ublkc%u", s->id);
	s->device = open(path, O_RDWR | O_CLOEXEC);
	if (s->device < 0)
		fail(path);
	requests = mmap(NULL, s->depth * sizeof(*s->requests), PROT_READ, MAP_SHARED, s->device,
			UBLKSRV_CMD_BUF_OFFSET);
	if (requests == MAP_FAILED)
		fail("rotating: the requests");
	s->requests = requests;
	for (unsigned int tag = 0; tag < s->depth; tag++)
		next_request(s, UBLK_IO_FETCH_REQ, tag, 0);
	/* Completes when the device is there. Before that, its partition table may be read. */
	control_command(s, UBLK_CMD_START_DEV, NULL, 0, (uint64_t)getpid());
}

/*
 * Copies the next part of a request's data. In parts, each when its first byte passes under the
 * head: the copy takes the guest's CPU, and no task runs there meanwhile.
 */
static void copy_part(struct server *s)
{
	struct request *r = &s->serving;
	off_t place = UBLKSRV_IO_BUF_OFFSET + ((off_t)r->tag << UBLK_IO_BUF_BITS) + r->copied;
	size_t part = (size_t)(r->bytes - r->copied < PART ? r->bytes - r->copied : PART);
	char *data = s->data + r->offset + r->copied;
	ssize_t done = r->operation == UBLK_IO_OP_WRITE ? pread(s->device, data, part, place)
							: pwrite(s->device, data, part, place);

	r->copied += (int64_t)part;
	if (done != (ssize_t)part)
		r->result = -EIO;
}

/* Copies what is due, and sets the timer for what comes next. */
static void go_on(struct server *s)
{
	struct request *r = &s->serving;
	struct io_uring_sqe *sqe;
	int64_t next = r->done;

	if (r->copied < r->bytes) {
		copy_part(s);
		next -= media_ns(&s->spindle, r->bytes - r->copied);
	}
	s->wake.tv_sec = next / NS_PER_S;
	s->wake.tv_nsec = next % NS_PER_S;
	sqe = entry(s);
	io_uring_prep_timeout(sqe, &s->wake, 0, IORING_TIMEOUT_ABS);
	sqe->user_data = TIMER;
}

/* When the disk can begin a request that came then. */
static int64_t start_of(const struct server *s, const struct waiting *w)
{
	return w->came < s->spindle.free ? s->spindle.free : w->came;
}

static struct request request_of(const struct server *s, const struct waiting *w)
{
	const struct ublksrv_io_desc *asked = &s->requests[w->tag];

	return (struct request){
		.tag = w->tag,
		.operation = ublksrv_get_op(asked),
		.offset = (int64_t)asked->start_sector * SECTOR,
		.bytes = (int64_t)asked->nr_sectors * SECTOR,
		.done = start_of(s, w),
	};
}

/* The request that is served next: its place in the queue. */
static unsigned int choose(const struct server *s)
{
	int64_t first = INT64_MAX;
	unsigned int best = 0;

	if (start_of(s, &s->queue[0]) - s->queue[0].came >= s->age)
		return 0;
	for (unsigned int i = 0; i < s->waiting; i++) {
		struct spindle tried = s->spindle;
		struct request r = request_of(s, &s->queue[i]);
		int64_t begins = spindle_access(&tried, r.operation == UBLK_IO_OP_WRITE, r.offset,
						r.bytes, r.done) -
				 media_ns(&tried, r.bytes);

		if (begins < first) {
			first = begins;
			best = i;
		}
	}
	return best;
}

/* Begins the next of the requests that wait. */
static void serve(struct server *s)
{
	unsigned int i = choose(s);
	struct request *r = &s->serving;

	*r = request_of(s, &s->queue[i]);
	s->waiting--;
	memmove(&s->queue[i], &s->queue[i + 1], (s->waiting - i) * sizeof(s->queue[0]));
	s->is_serving = 1;
	if (r->operation != UBLK_IO_OP_READ && r->operation != UBLK_IO_OP_WRITE) {
		r->result = r->operation == UBLK_IO_OP_FLUSH ? 0 : -EOPNOTSUPP;
		r->bytes = 0;
	} else if (r->offset + r->bytes > s->spindle.size) {
		r->result = -EIO;
		r->bytes = 0;
	} else {
		r->result = (int)r->bytes;
		r->done = spindle_access(&s->spindle, r->operation == UBLK_IO_OP_WRITE, r->offset,
					 r->bytes, r->done);
	}
	go_on(s);
}

static void answer(struct server *s)
{
	next_request(s, UBLK_IO_COMMIT_AND_FETCH_REQ, s->serving.tag, s->serving.result);
	s->is_serving = 0;
}

/* The device is ready: says so to the process that waits for it, and lets go of its output. */
static void report(struct server *s, int ready)
{
	int null = open("/dev/null", O_RDWR);

	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	close(null);
	if (write(ready, &s->id, sizeof(s->id)) != sizeof(s->id))
		_exit(1);
	close(ready);
}

static void completed(struct server *s, const struct io_uring_cqe *cqe, int ready)
{
	if (cqe->user_data == TIMER) {
		if (s->serving.copied < s->serving.bytes)
			go_on(s);
		else
			answer(s);
	} else if (cqe->user_data == STARTED) {
		if (cqe->res < 0)
			give_up("rotating: START_DEV", -cqe->res);
		report(s, ready);
	} else if (cqe->res == UBLK_IO_RES_OK) {
		s->queue[s->waiting++] = (struct waiting){
			.tag = (unsigned int)cqe->user_data,
			.came = now_ns(),
		};
	} else {
		exit(0); /* the device is being removed */
	}
}

/* The data are allocated by CPU 0, so that they lie in the first NUMA node. */
static char *allocate(size_t bytes)
{
	cpu_set_t before, first;
	char *data;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_getaffinity(0, sizeof(before), &before);
	sched_setaffinity(0, sizeof(first), &first);
	data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
		    -1, 0);
	if (data == MAP_FAILED || mlockall(MCL_CURRENT | MCL_FUTURE))
		fail("rotating: the data");
	sched_setaffinity(0, sizeof(before), &before);
	return data;
}

static void be_the_disk(struct server *s, int ready)
{
	const struct sched_param priority = { .sched_priority = PRIORITY };
	struct io_uring_cqe *cqe;
	int error;

	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		fail("rotating: SCHED_FIFO");
	/* Memory that the server needs must not wait for writes to the server's own disk. */
	if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0))
		fail("rotating: PR_SET_IO_FLUSHER");
	s->data = allocate((size_t)s->spindle.size);
	s->control = open("/dev/ublk-control", O_RDWR | O_CLOEXEC);
	if (s->control < 0)
		fail("/dev/ublk-control");
	error = io_uring_queue_init(2 * MOST_DEPTH, &s->ring, IORING_SETUP_SQE128);
	if (error)
		give_up("rotating: io_uring", -error);
	add_device(s);
	for (;;) {
		error = io_uring_submit_and_wait(&s->ring, 1);
		if (error < 0 && error != -EINTR)
			give_up("rotating: io_uring", -error);
		while (!io_uring_peek_cqe(&s->ring, &cqe)) {
			completed(s, cqe, ready);
			io_uring_cqe_seen(&s->ring, cqe);
		}
		if (s->waiting && !s->is_serving)
			serve(s);
	}
}

int main(int count, char **words)
{
	static struct server s;
	int ends[2];

	if (count != 7) {
		fprintf(stderr, "usage: rotating SIZE_MB RPM SEEK_US RATE DEPTH AGE_MS\n");
		return 2;
	}
	s.spindle = spindle_new(number("SIZE_MB", words[1], 1, 1 << 20) << 20,
				number("RPM", words[2], 60, 100000),
				number("SEEK_US", words[3], 801, 1000000) * NS_PER_US,
				number("RATE", words[4], 1 << 20, 1LL << 40));
	s.depth = (unsigned int)number("DEPTH", words[5], 1, MOST_DEPTH);
	s.age = number("AGE_MS", words[6], 0, 100000) * NS_PER_MS;
	if (pipe2(ends, O_CLOEXEC))
		fail("pipe");
	if (fork_or_die() == 0) {
		close(ends[0]);
		setsid();
		be_the_disk(&s, ends[1]);
	}
	close(ends[1]);
	if (read(ends[0], &s.id, sizeof(s.id)) != sizeof(s.id))
		return 1; /* the server has said why */
	printf("ublkb%u\n", s.id);
	return 0;
}
