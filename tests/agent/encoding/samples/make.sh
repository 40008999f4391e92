#!/bin/bash
# Makes the sample files beside this script with the programs of Debian 12. As root, in a network of
# its own, so that no port is taken:
#
#   debootstrap --variant=minbase --include=iproute2,curl,nginx-light,apache2,haproxy,rsyslog,\
#   postgresql,ruby,python3,golang-go,openjdk-17-jdk-headless,bsdutils,\
#   libivykis0,libnet1,libwrap0,libjson-c5 bookworm /tmp/root
#   chroot /tmp/root sh -c 'cd /tmp && apt-get download syslog-ng-core &&
#       dpkg -x syslog-ng-core_*.deb /opt/syslog-ng'    # which Debian does not install beside rsyslog
#   cp tests/agent/encoding/samples/make.sh /tmp/root/
#   unshare --net --pid --fork --mount chroot /tmp/root bash /make.sh
#   cp /tmp/root/samples/* tests/agent/encoding/samples/
#
# Times, ports and process ids differ from run to run, so events.json has to be written again:
# .venv/bin/python -m tests.agent.encoding.samples.events
set -eu
export LC_ALL=C.UTF-8 HOME=/root TZ=Europe/Zurich GOCACHE=/tmp/gocache GO111MODULE=off
out=/samples
rm -rf $out /tmp/made && mkdir -p $out /tmp/made /tmp/made/www/private && cd /tmp/made
echo hello | tee www/index.html > www/private/index.html
touch -d '2 days ago' www/index.html
printf 'ada:%s\nada b:%s\n' "$(openssl passwd -apr1 x)" "$(openssl passwd -apr1 x)" > users
ip link set lo up
mount -t proc proc /proc 2>/dev/null || true
chmod 755 . www www/private && chmod 644 users www/index.html www/private/index.html

raw() {  # the bytes of $2 to port $1, as they are
    { printf "$2" >&3; timeout 1 cat <&3 >/dev/null || true; exec 3>&-; } 3<>/dev/tcp/127.0.0.1/$1
}
requests() {
    local at=127.0.0.1:$1
    curl -s -o /dev/null "http://$at/?n=1&q=%22a%22"
    curl -s -o /dev/null "http://[::1]:$1/"
    curl -s -o /dev/null -u 'ada b:x' "http://$at/private/"
    curl -s -o /dev/null -I -e 'http://a.example/"x"' -A 'say "hi" \ Grüße' "http://$at/"
    curl -s -o /dev/null -H 'User-Agent:' -H 'X-Forwarded-For: 2001:db8::7, 10.0.0.1' "http://$at/none"
    curl -s -o /dev/null -H "If-Modified-Since: $(date -uR -d yesterday | sed 's/+0000/GMT/')" "http://$at/"
    raw $1 'GET /\xc3\xa4\xff\x22\x5c HTTP/1.0\r\n\r\n'
    raw $1 'GET /a b HTTP/1.0\r\n\r\n'
    raw $1 'GET /old\r\n'
    raw $1 '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x22\x0a\x0d\x0a'
    raw $1 '] \x22GET / HTTP/1.1\x22 200 1 \x22-\x22 \x22-\x22\r\n\r\n'
    raw $1 'OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
    raw $1 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
    raw $1 '\r\n'
}

# nginx: combined, which is its default, and main of nginx.org's packages.
cat > nginx.conf <<'END'
pid /tmp/made/nginx.pid;
error_log /dev/null;
events {}
http {
    log_format main '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent '
                    '"$http_referer" "$http_user_agent" "$http_x_forwarded_for"';
    access_log /tmp/made/nginx.log;
    access_log /tmp/made/nginx-main.log main;
    server {
        listen 127.0.0.1:8081;
        listen [::1]:8081;
        root /tmp/made/www;
        location /private { auth_basic private; auth_basic_user_file /tmp/made/users; }
    }
}
END
nginx -c $PWD/nginx.conf
requests 8081
cp nginx*.log $out/

# Apache: the formats of Debian's apache2.conf, and the common log format of Apache's manual.
{
    cat <<'END'
ServerRoot /etc/apache2
PidFile /tmp/made/apache.pid
ErrorLog /dev/null
ServerName www.example
Listen 127.0.0.1:8082
Listen [::1]:8082
DocumentRoot /tmp/made/www
Include mods-available/mpm_event.load
Include mods-available/authn_core.load
Include mods-available/authn_file.load
Include mods-available/authz_core.load
Include mods-available/authz_user.load
Include mods-available/auth_basic.load
Include mods-available/dir.load
<Location /private>
    AuthType Basic
    AuthName private
    AuthUserFile /tmp/made/users
    Require valid-user
</Location>
END
    grep ^LogFormat /etc/apache2/apache2.conf
    echo 'CustomLog /samples/apache.log combined'
    echo 'CustomLog /samples/apache-common.log "%h %l %u %t \"%r\" %>s %b"'
    echo 'CustomLog /samples/apache-vhosts.log vhost_combined'
} > apache.conf
apache2 -f $PWD/apache.conf
requests 8082

# haproxy: through rsyslog with Debian's template, as its package is set up, and to standard output.
cat > rsyslog.conf <<'END'
module(load="imudp")
input(type="imudp" address="127.0.0.1" port="5514")
local0.* action(type="omfile" file="/samples/haproxy.log")
END
rsyslogd -f $PWD/rsyslog.conf -i $PWD/rsyslog.pid
cat > haproxy.cfg <<'END'
global
    log 127.0.0.1:5514 local0
    log stdout format raw local1
defaults
    log global
    mode http
    option httplog
    timeout connect 1s
    timeout client 500ms
    timeout server 2s
frontend web
    bind 127.0.0.1:8083
    bind [::1]:8083
    capture request header Host len 20
    capture request header User-Agent len 20
    capture response header Server len 20
    capture cookie id= len 20
    http-request deny if { path /denied }
    use_backend down if { path /down }
    default_backend app
backend app
    server a1 127.0.0.1:8081
backend down
    server d1 127.0.0.1:1 check inter 200ms
END
haproxy -f haproxy.cfg > $out/haproxy-stdout.log 2>/dev/null &
haproxy=$!
sleep 5
curl -s -o /dev/null -b id=7 "http://127.0.0.1:8083/?n=1"
curl -s -o /dev/null "http://[::1]:8083/"
curl -s -o /dev/null "http://127.0.0.1:8083/denied"
curl -s -o /dev/null "http://127.0.0.1:8083/down"
raw 8083 'GET /\xc3\xa4\x22 HTTP/1.0\r\n\r\n'
raw 8083 '\x16\x03\x01\x02\x00\r\n\r\n'
raw 8083 'GET / HT'
curl -s -o /dev/null "http://127.0.0.1:8083/$(printf 'long%.0s' {1..300})"
kill $haproxy; wait $haproxy || true

# PostgreSQL with Debian's prefix; its zone is that of the machine.
bin=$(echo /usr/lib/postgresql/*/bin)
install -d -o postgres /tmp/made/pg
run() { su postgres -c "TZ=Europe/Zurich $*"; }
run "$bin/initdb -D /tmp/made/pg -A trust --locale=C.UTF-8 > /dev/null"
cat >> pg/postgresql.conf <<'END'
log_line_prefix = '%m [%p] %q%u@%d '
log_timezone = 'Europe/Zurich'
log_min_duration_statement = 0
listen_addresses = ''
unix_socket_directories = '/tmp/made/pg'
END
run "$bin/pg_ctl -s -w -D /tmp/made/pg -l /tmp/made/pg/log start"
run "psql -q -h /tmp/made/pg -f - postgres" > /dev/null 2>&1 <<'END' || true
create role "ada@example.com" login;
create table cart (id int primary key, note text);
insert into cart values (1, 'a');
insert into cart values (1, E'two
	lines');
select nothing
from cart
where id = 'x@y LOG:  z';
do $$
begin
    raise warning 'stock is low: %', 3 using hint = 'order more';
    perform 1 / 0;
end $$;
END
run "psql -q -h /tmp/made/pg -U nobody postgres" < /dev/null > /dev/null 2>&1 || true
run "psql -q -h /tmp/made/pg -U ada@example.com postgres -c 'select 1/0'" > /dev/null 2>&1 || true
run "$bin/pg_ctl -s -w -D /tmp/made/pg -m fast stop"
install -m 644 pg/log $out/postgresql.log

# rsyslog and syslog-ng, as in docs/how-to/syslog.md, except that both share one file.
syslog() {
    logger --udp -n 127.0.0.1 -P 5515 -t shop -p daemon.err "over UDP: Grüße"
    logger --udp -n 127.0.0.1 -P 5515 --rfc3164 -t shop -p daemon.err "over UDP: $(printf 'a\tb')"
    logger --tcp -n 127.0.0.1 -P 5515 --rfc5424 -t shop -p local3.notice --msgid ID7 \
        --sd-id shop@32473 --sd-param 'user="a\"da"' "over TCP"
    python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for text in b"<34>Nov 30 10:20:00 web-1 su[7]: two\nlines", b"neither a time nor a host", b"<13>":
    s.sendto(text, ("127.0.0.1", 5515))'
    sleep 1
}
cat > hosts.conf <<'END'
module(load="imudp")
module(load="imtcp")
input(type="imudp" port="5515" ruleset="hosts")
input(type="imtcp" port="5515" ruleset="hosts")
template(name="HostLine" type="string" string="<%PRI%>1 %TIMESTAMP:::date-rfc3339% %HOSTNAME% %APP-NAME% %PROCID% %MSGID% %STRUCTURED-DATA%%msg:::sp-if-no-1st-sp%%msg:::drop-last-lf%\n")
ruleset(name="hosts") { action(type="omfile" file="/samples/syslog-rsyslog.log" template="HostLine") }
END
rsyslogd -f $PWD/hosts.conf -i $PWD/hosts.pid
sleep 5; syslog
kill $(cat hosts.pid); sleep 5
ng=/opt/syslog-ng
cat > ng.conf <<'END'
@version: 3.35
source s_hosts {
    network(transport("udp") port(5515) flags(syslog-protocol, no-multi-line) keep-hostname(yes));
    network(transport("tcp") port(5515) flags(syslog-protocol, no-multi-line) keep-hostname(yes));
};
log { source(s_hosts); destination { file("/samples/syslog-ng.log" flags(syslog-protocol)); }; };
END
LD_LIBRARY_PATH=$ng/usr/lib/syslog-ng:$(echo $ng/usr/lib/*-linux-gnu) $ng/usr/sbin/syslog-ng -f $PWD/ng.conf \
    --no-caps --module-path=$(dirname $ng/usr/lib/syslog-ng/*/libsyslogformat.so) \
    --persist-file=$PWD/ng.persist --pidfile=$PWD/ng.pid --control=$PWD/ng.control
sleep 5; syslog
kill $(cat ng.pid)

# Stack traces, below a logger's line and alone.
cat > Shop.java <<'END'
import java.util.logging.*;
public class Shop {
    static void add(int n) { try { int[] a = new int[n]; a[n] = 1; }
        catch (RuntimeException e) { throw new IllegalStateException("cannot add " + n, e); } }
    public static void main(String[] args) {
        System.setProperty("java.util.logging.SimpleFormatter.format", "%1$tF %1$tT %4$s %5$s%n%6$s");
        Logger log = Logger.getLogger("shop");
        log.info("started");
        try { add(1); } catch (RuntimeException e) { e.addSuppressed(new java.io.IOException("closed"));
            log.log(Level.SEVERE, "order failed", e); }
        log.info("next");
        add(2);
    }
}
END
javac Shop.java && java Shop 2> $out/java.log || true
cat > shop.py <<'END'
import logging
from concurrent.futures import Future
logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
class OutOfStockError(LookupError): pass
def add(n):
    try:
        return [][n]
    except IndexError:
        raise OutOfStockError(f"none of {n}")
logging.info("started")
try:
    add(1)
except LookupError:
    logging.exception("order failed")
logging.info("next")
try:
    raise ExceptionGroup("both", [ValueError("a"), TypeError("b")])
except ExceptionGroup:
    logging.exception("group")
try:
    Future().result(timeout=0)
except Exception as error:
    raise ValueError("late") from error
END
python3 shop.py 2> $out/python.log || true
cat > shop.go <<'END'
package main
import ("log"; "fmt")
type cart struct{ items []int }
func (c *cart) add(n int) { c.items[n] = 1 }
func main() {
    log.Println("started")
    func() {
        defer func() { log.Println("recovered:", recover()) }()
        (&cart{}).add(1)
    }()
    done := make(chan bool)
    go func() { defer fmt.Println("deferred"); var c *cart; c.add(2); done <- true }()
    <-done
}
END
go build -o shop shop.go && ./shop 2> $out/go.log > /dev/null || true
cat > shop.rb <<'END'
require "logger"
log = Logger.new($stderr)
def add(n)
  [].fetch(n)
rescue IndexError
  raise ArgumentError, "cannot add #{n}"
end
log.info("started")
begin
  add(1)
rescue => error
  log.error(error)
end
log.info("next")
def lose(n) = nil.ad(n)
lose(2)
END
ruby shop.rb 2> $out/ruby.log || true

kill $(cat nginx.pid apache.pid rsyslog.pid)
umount /proc 2>/dev/null || true
