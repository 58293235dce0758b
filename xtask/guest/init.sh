#!/bin/sh
# The guest's first program: mounts what a system has, runs the cases, ends the machine.
# Without ACPI nothing can be powered off: qemu leaves at a reboot because of -no-reboot.
export PATH=/bin HOME=/root
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t securityfs security /sys/kernel/security
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs -o mode=700,uid=1000,gid=1000 user /home/user
mount -t tmpfs -o mode=700 root /root
hostname guest
/bin/cases guest-cases
reboot -f
