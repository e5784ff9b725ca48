/* SPDX-License-Identifier: GPL-2.0 */
/*
 * slow SOCKET N - a hostile client: keeps N connections open, asks for all domains on each, and
 * reads a byte of the answer every 5 s. A connection that the daemon closes is opened again.
 */
#include "lib.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#define MOST 1000

static int ask(const struct sockaddr_un *address)
{
	static const char request[] = "{\"v\":1,\"ask\":{\"domains\":{}}}\n";
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) ||
	    write(fd, request, sizeof(request) - 1) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

int main(int count, char **words)
{
	int64_t n = argument(count, words, 2, 1);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int sockets[MOST];
	char byte;

	if (count < 2 || n > MOST)
		return 2;
	signal(SIGPIPE, SIG_IGN);
	strncpy(address.sun_path, words[1], sizeof(address.sun_path) - 1);
	for (int64_t i = 0; i < n; i++)
		sockets[i] = ask(&address);
	for (;;) {
		sleep(5);
		for (int64_t i = 0; i < n; i++) {
			if (sockets[i] >= 0 && (read(sockets[i], &byte, 1) > 0 || errno == EAGAIN))
				continue;
			if (sockets[i] >= 0)
				close(sockets[i]);
			sockets[i] = ask(&address);
		}
	}
}
