# Interpreters in threads, with a queue and a condition variable.
use strict;

BEGIN {
    # Debian's perl-base has no threads.
    eval { require threads; require threads::shared; require Thread::Queue; } or do {
        print STDERR "no threads in this perl (Debian's package perl)\n";
        exit 77;
    };
    threads->import;
    threads::shared->import;
}
my $queue = Thread::Queue->new;
my $sum :shared = 0;
my @workers = map {
    threads->create(sub {
        while (defined(my $n = $queue->dequeue)) {
            lock($sum);
            $sum += $n;
            cond_broadcast($sum);
        }
    })
} 1 .. 4;
$queue->enqueue($_) for 1 .. 1000;
{
    lock($sum);
    cond_wait($sum) until $sum == 500500;
}
$queue->end;
$_->join for @workers;
print "$sum\n";
