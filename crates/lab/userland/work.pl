# SPDX-License-Identifier: GPL-2.0-only
# Uses much of the interpreter, the same way each time.
use strict;
use warnings;
$| = 0;
my ($state, @out) = (12345);
sub next_number { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return $state >> 8 }

my @numbers = map { next_number() } 1 .. 4000;
push @out, join ',', (sort { $a <=> $b } @numbers)[0, 1999, 3999];
push @out, join ',', (sort map { sprintf '%x', $_ } @numbers)[0, 1999, 3999];

my %count;
$count{ $_ % 97 }++ for @numbers;
push @out, join ',', map { "$_=$count{$_}" } (sort { $count{$b} <=> $count{$a} || $a <=> $b } keys %count)[0 .. 4];

my $text = join ' ', map { chr(97 + $_ % 26) x (1 + $_ % 7) } @numbers;
my %seen;
$seen{ lc $1 }++ while $text =~ /\b([a-m]+(?=\s))/g;
push @out, scalar(keys %seen);
(my $swapped = $text) =~ s/(\w+) (\w+)/$2 $1/g;
push @out, unpack('%32C*', $swapped), ($swapped =~ tr/aeiou//), length(reverse $swapped);
push @out, $text =~ /(?<word>q{3,})\s.*?\k<word>/s ? $-[0] : 'none';

push @out, unpack('H*', pack('NnCa8w/a d<', 1, 2, 3, 'leaf', 'wide', 0.5));
push @out, sprintf('%08.3f|%-6s|%+d|%e|%#o', 3.14159, 'ab', 7, 12345.678, 8);
push @out, join ',', map { eval "($_) ** 2 + 1" } 1 .. 50;
push @out, join ',', grep { defined } map { eval { die { n => $_ } if $_ % 3; $_ } } 1 .. 9;

{
	package Counter;
	sub TIESCALAR { my $n = 0; bless \$n }
	sub FETCH { ${ $_[0] }++ }
	package Shape;
	use overload '+' => sub { Shape->new($_[0]{n} + (ref $_[1] ? $_[1]{n} : $_[1])) }, '""' => sub { "<$_[0]{n}>" };
	sub new { bless { n => $_[1] }, $_[0] }
	our $AUTOLOAD;
	sub AUTOLOAD { my $name = $AUTOLOAD; $name =~ s/.*:://; return if $name eq 'DESTROY'; "$name?" }
}
tie my $tied, 'Counter';
push @out, "$tied$tied$tied", Shape->new(2) + 3, Shape->area;

my $wide = join '', map { chr(0x3b1 + $_ % 24) } @numbers;
utf8::encode(my $bytes = uc $wide);
push @out, length $bytes, ($wide =~ /\p{Greek}{5}/ ? 1 : 0), ucfirst lc 'LEAF';
push @out, join ',', splice(@{ [1 .. 9] }, 2, 3), (wantarray() // 'undef'), sprintf('%vd', '1.22.333');
my @sorted = sort { $a->[1] cmp $b->[1] or $a->[0] <=> $b->[0] } map { [$_, substr($text, $_ * 3, 4)] } 0 .. 999;
push @out, "$sorted[0][1]:$sorted[-1][1]", vec("\x5a", 3, 2), oct('0x1f'), int(atan2(1, 1) * 4e6), crypt_like("wide");
sub crypt_like { my $h = 5381; $h = (($h << 5) ^ $h ^ ord) & 0xffffffff for split //, shift; $h }
open my $file, '<', \$text or die;
local $/ = ' ';
my $lines = 0;
$lines++ while <$file>;
push @out, $lines, scalar gmtime(0), join('', map { chr ord } split //, 'done');
print "$_\n" for @out;
