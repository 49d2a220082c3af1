# Makes a man page from what pmuvisor-check --help prints.
s/-/\\-/g
1i\
.TH PMUVISOR\\-CHECK 8 "" "PMUvisor" ""\
.SH NAME\
pmuvisor\\-check \\- says whether PMUvisor would boot on this machine\
.SH SYNOPSIS
1s/^usage: \([^ ]*\) \(.*\)/.B \1\
\2\
.SH DESCRIPTION\
Runs PMUvisor's own code on facts about this machine, without a reboot. The verdict is that PMUvisor\
boots, boots without something, or refuses to start, with PMUvisor's own lines.\
.SH OPTIONS/
s/^  \(\\-\\-[a-z]*\) \([A-Z]*\)  *\(.*\)/.TP\
.BI \1 "\\ \2"\
\3/
s/^exit status: /.SH EXIT STATUS\
/
s/^  *//
$a\
.SH SEE ALSO\
.BR pmuvisor (7)
