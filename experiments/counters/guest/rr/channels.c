/* SPDX-License-Identifier: BSD-2-Clause
 *
 * channels.c: unix: a pair of sockets between processes, with a file descriptor sent through; tcp:
 * a server and a client on the loopback; events: epoll over a pipe, an eventfd and a signalfd.
 */
#define _GNU_SOURCE
#include "programs.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGES 20
#define KINDS 3

static void send_descriptor(int socket, int fd)
{
    char room[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    must(sendmsg(socket, &message, 0) == 1, "sendmsg");
}

static int receive_descriptor(int socket)
{
    char room[CMSG_SPACE(sizeof(int))], byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    int fd;

    must(recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != NULL, "recvmsg");
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

int run_unix(void)
{
    int both[2], through[2];
    char text[32] = "";
    pid_t child;

    must(socketpair(AF_UNIX, SOCK_STREAM, 0, both) == 0 && pipe(through) == 0, "socketpair");
    child = fork();
    if (child == 0) {
        int fd = receive_descriptor(both[1]);

        must(write(fd, "through a pipe that was sent", 28) == 28, "write");
        _exit(0);
    }
    send_descriptor(both[0], through[1]);
    must(waitpid(child, NULL, 0) == child && read(through[0], text, sizeof(text) - 1) == 28,
         "read");
    printf("unix: %s\n", text);
    return 0;
}

static void *serve(void *listener)
{
    int client = accept(*(int *)listener, NULL, NULL);
    uint32_t number;

    must(client >= 0, "accept");
    while (read(client, &number, sizeof(number)) == sizeof(number)) {
        number = work(number, 100);
        must(write(client, &number, sizeof(number)) == sizeof(number), "write");
    }
    close(client);
    return NULL;
}

int run_tcp(void)
{
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t length = sizeof(place);
    uint32_t number = 1;
    pthread_t server;

    must(bind(listener, (struct sockaddr *)&place, sizeof(place)) == 0 && listen(listener, 1) == 0,
         "bind");
    must(getsockname(listener, (struct sockaddr *)&place, &length) == 0, "getsockname");
    varies("port %u", ntohs(place.sin_port));
    must(pthread_create(&server, NULL, serve, &listener) == 0, "pthread_create");
    must(connect(client, (struct sockaddr *)&place, sizeof(place)) == 0, "connect");
    for (unsigned i = 0; i < MESSAGES; i++) {
        must(write(client, &number, sizeof(number)) == sizeof(number), "write");
        must(read(client, &number, sizeof(number)) == sizeof(number), "read");
    }
    close(client);
    pthread_join(server, NULL);
    printf("tcp: %u after %d answers\n", number, MESSAGES);
    return 0;
}

static void wait_for(int poll, const int *from)
{
    struct epoll_event event;
    char bytes[sizeof(struct signalfd_siginfo)];

    must(epoll_wait(poll, &event, 1, -1) == 1, "epoll_wait");
    must(read(from[event.data.u32], bytes, sizeof(bytes)) > 0, "read");
    printf("events: kind %u\n", event.data.u32);
}

int run_events(void)
{
    int poll = epoll_create1(0), pipes[2], from[KINDS];
    sigset_t set;
    uint64_t one = 1;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    must(pipe2(pipes, O_NONBLOCK) == 0 && sigprocmask(SIG_BLOCK, &set, NULL) == 0, "pipe2");
    from[0] = pipes[0];
    from[1] = eventfd(0, 0);
    from[2] = signalfd(-1, &set, 0);
    for (uint32_t i = 0; i < KINDS; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};

        must(from[i] >= 0 && epoll_ctl(poll, EPOLL_CTL_ADD, from[i], &event) == 0, "epoll_ctl");
    }
    must(write(from[1], &one, sizeof(one)) == sizeof(one), "write");
    wait_for(poll, from);
    must(write(pipes[1], "byte", 4) == 4, "write");
    wait_for(poll, from);
    must(kill(getpid(), SIGUSR1) == 0, "kill");
    wait_for(poll, from);
    return 0;
}
