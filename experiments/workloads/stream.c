/* SPDX-License-Identifier: GPL-2.0 */
/*
 * stream FILE ADDRESS PORT - a server of a film of 1.51 Mbit a second, until it is killed. A round
 * is a second. In each the server reads 23 times 8 KB from FILE, past the page cache, and then
 * sends them as 128 datagrams of 1,472 bytes. A round that takes longer than a second makes the
 * next one late. Each datagram begins with the time when its round was due and its number, as
 * those of datagrams.c, which receives them.
 *
 * The first round is half a second after the start, so that a receiver that counts from a whole
 * second on counts whole rounds.
 */
#define _GNU_SOURCE /* O_DIRECT */
#include "lib.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define READ_BYTES 8192
#define READS 23
#define DATAGRAM_BYTES 1472 /* what a frame of Ethernet has room for */
#define ROUND_BYTES (READS * READ_BYTES)
#define DATAGRAMS (ROUND_BYTES / DATAGRAM_BYTES)
_Static_assert(DATAGRAMS *DATAGRAM_BYTES == ROUND_BYTES, "a round is whole datagrams");

static char data[ROUND_BYTES] __attribute__((aligned(4096)));

static int socket_to(const char *address, int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	if (s < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1 ||
	    connect(s, (struct sockaddr *)&to, sizeof(to)))
		fail("socket");
	return s;
}

static void read_round(int file, int64_t round, int64_t rounds)
{
	off_t at = round % rounds * ROUND_BYTES;

	for (int i = 0; i < READS; i++)
		if (pread(file, data + i * READ_BYTES, READ_BYTES, at + i * READ_BYTES) !=
		    READ_BYTES)
			fail("pread");
}

static void send_round(int s, int64_t due, int64_t number)
{
	for (int i = 0; i < DATAGRAMS; i++) {
		char *datagram = data + i * DATAGRAM_BYTES;
		int64_t head[] = { due, number + i };

		memcpy(datagram, head, sizeof(head));
		/* ENOBUFS: dropped here. ECONNREFUSED: no receiver at the moment. */
		if (send(s, datagram, DATAGRAM_BYTES, 0) < 0 && errno != ENOBUFS &&
		    errno != ECONNREFUSED)
			fail("send");
	}
}

int main(int count, char **words)
{
	if (count != 4) {
		fprintf(stderr, "usage: stream FILE ADDRESS PORT\n");
		return 2;
	}
	int file = open(words[1], O_RDONLY | O_DIRECT);
	int s = socket_to(words[2], number("PORT", words[3], 1, 65535));
	off_t size = file < 0 ? -1 : lseek(file, 0, SEEK_END);
	int64_t due = now_ns() + NS_PER_S / 2;

	if (size < ROUND_BYTES)
		fail(words[1]);
	for (int64_t round = 0;; round++, due += NS_PER_S) {
		sleep_until_ns(due);
		read_round(file, round, size / ROUND_BYTES);
		send_round(s, due, round * DATAGRAMS);
	}
}
