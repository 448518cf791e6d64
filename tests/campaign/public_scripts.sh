# Runs a public script for test_public_scripts.py, unchanged, in a root of its own. First, $2: a new directory, $3: the one
# with the database, $4: the folder of the scripts, $5: this checkout, $6: Python's, $7...: $1... in the new root.
if test $1 = enter; then
    set -e
    cd $2; mkdir -p upper work root/{usr,proc,dev,sys,scripts,root,opt,var/log}
    mount -t overlay overlay -o lowerdir=/usr,upperdir=$2/upper,workdir=$2/work root/usr; mount -t proc proc root/proc
    mount --rbind /dev root/dev; mount --rbind /sys root/sys; mount --bind $4 root/scripts
    for path in $5 $6; do mkdir -p root$path; mount --bind $path root$path; done
    cd root; ln -s usr/bin usr/sbin usr/lib usr/lib64 .; cp -a /etc .; rm -r etc/ldap/slapd.d; ln $3/dump.ldif .
    mkdir -m 1777 tmp var/tmp; mkdir var/backups var/cache; ln -s ../run var/run
    install -d -o openldap -g openldap run run/slapd var/lib var/lib/ldap etc/ldap/slapd.d; cp $3/slapd.conf etc/ldap
    cp --sparse=always $3/db/data.mdb var/lib/ldap; chown -R openldap: var/lib/ldap; chmod 600 var/lib/ldap/data.mdb
    code=$5; shift 6; exec chroot . /bin/bash $code/tests/campaign/public_scripts.sh "$1" "$2" $code "$3"
fi
# Then, $1: the repository, $2: its command, $3: this checkout, $4: ditseed (empty: with the originals). $REPO: where the
# repository is, $TOOLS: where an operator's own paths of the tools lead. `absolute`: for callers of /usr/sbin/TOOL, as
# docs/drop-in.md says.
export TOOLS=/usr/sbin REPO=/scripts/$1
test -z "$4" || { TOOLS=/usr/lib/ditseed/bin; PYTHONPATH=$3 $4 shims $TOOLS >/dev/null || exit; }
program() { cat >/usr/local/bin/$1; chmod 755 /usr/local/bin/$1; }
for name in systemctl sv nscd doguctl; do program $name <<<'#!/bin/sh'; done
tools() { mkdir -p $1; for tool in slapadd slapcat slapindex; do ln -s $TOOLS/$tool $1/$tool; done; }
absolute() { test $TOOLS = /usr/sbin || for tool in slapadd slapcat slapindex; do
    mv /usr/sbin/$tool /usr/sbin/$tool.distrib; ln -s $TOOLS/$tool /usr/sbin/$tool; done; }
as_slapd() { setpriv --reuid=openldap --regid=openldap --init-groups "$@"; }; export -f as_slapd
start() { (ulimit -n 1024; slapd -h ldapi:/// -F /etc/ldap/slapd.d -u openldap -g openldap); }
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin
mkdir /conf; slaptest -f /etc/ldap/slapd.conf -F /conf >/dev/null 2>&1
slapcat -n 0 -F /conf | grep -v olcReadOnly | slapadd -n 0 -F /etc/ldap/slapd.d  # slapd-snapshot looks for it
chown -R openldap: /etc/ldap/slapd.d /var/lib/ldap

case $1 in
ltb-project/slapd-cli)
tools /usr/local/openldap/sbin; cd /usr/local/openldap; mkdir -p bin libexec etc/openldap
ln -s /usr/sbin/slapd libexec/slapd; ln -s /usr/sbin/slaptest sbin/slaptest; ln -s /usr/bin/ldapsearch bin/ldapsearch
install -d -o openldap /var/backups/openldap
cat >etc/openldap/slapd-cli.conf <<'END'
SLAPD_CONF= SLAPD_CONF_DIR=/etc/ldap/slapd.d SLAPD_USER=openldap SLAPD_GROUP=openldap DATA_PATH=auto
SLAPD_PID_FILE=/run/slapd/slapd.pid SLAPD_SERVICES=ldapi:/// BACKUP_PATH=/var/backups/openldap BACKUP_AT_SHUTDOWN=0
END
;;
debops/debops)
absolute; start
;;
smarttargettech/active-directory)
mkdir -p /var/univention-backup /usr/share/univention-lib
cp $REPO/base/univention-lib/shell/backup.sh /usr/share/univention-lib
install -D /bin/false /usr/share/univention-ldap/setup-internal
program univention-config-registry <<'END'
#!/bin/sh
echo server_role=domaincontroller_master slapd_backup_owner=backup slapd_backup_group=adm slapd_backup_permissions=640
END
;;
raspbian-packages/openldap)
cat >/debconf <<'END'
db_get() { RET=always; test $1 != slapd/dump_database_destdir || RET=/var/backups/slapd-VERSION; }
OLD_VERSION=2.4 SLAPD_CONF=/etc/ldap/slapd.d SLAPD_USER=openldap SLAPD_GROUP=openldap MODE=upgrade
END
;;
YunoHost/yunohost)
absolute; start; mkdir -p /usr/share/yunohost/conf/slapd /data/conf/ldap; groupadd -f ssl-cert
echo 'ynh_backup() { cp "$@"; }' >/usr/share/yunohost/helpers
slapcat -n 0 -l /usr/share/yunohost/conf/slapd/config.ldif
;;
osixia/docker-openldap-backup)
absolute; mkdir -p /data/backup /container/run; cp $REPO/image/service/slapd-backup/assets/tool/* /usr/sbin
echo LDAP_BACKUP_TTL=9 >/container/run/environment.sh
printf '#!/bin/bash\nexec setpriv --reuid=$1 --regid=$1 --init-groups "${@:2}"\n' >/usr/sbin/setuser; chmod 755 /usr/sbin/setuser
;;
bitnami/bitnami-docker-openldap)
cp -r $REPO/2.5/debian-10/*fs/opt/bitnami /opt; mkdir -p /opt/bitnami/openldap/share
cat >/opt/bitnami/openldap/share/slapd.ldif <<'END'
dn: cn=config
objectClass: olcGlobal
cn: config

dn: cn=schema,cn=config
objectClass: olcSchemaConfig
cn: schema

include: file:///etc/ldap/schema/core.ldif
include: file:///etc/ldap/schema/cosine.ldif

dn: olcDatabase=config,cn=config
objectClass: olcDatabaseConfig
olcDatabase: config
olcAccess: to * by dn.exact=gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth manage
END
install -d -o openldap /bitnami/openldap/slapd.d; chown -R openldap /opt/bitnami
;;
Zimbra/zm-ldap-utilities)
cd /opt; mkdir -p zimbra/bin zimbra/common/lib zimbra/data/ldap/config zimbra/data/ldap/mdb /data
tools /opt/zimbra/common/sbin; ln -s $(ldconfig -p | sed -n 's/.*libm.so.6.*=> //p' | head -1) \
/opt/zimbra/common/lib/libtcmalloc_minimal.so; echo 'zmsetvars() { zimbra_user=openldap; }' >zimbra/bin/zmshutil
sed 's/suffix .*/suffix ""/; s/^rootdn.*/rootdn cn=config/; s:/var/lib/ldap:/opt/zimbra/data/ldap/mdb:' \
/etc/ldap/slapd.conf >/zimbra.conf; slaptest -f /zimbra.conf -F zimbra/data/ldap/config >/dev/null 2>&1
T=20260101000000; (printf '%s\n' 'dn: dc=org' 'objectClass: domain' 'dc: org' "entryCSN: $T.000000Z#000000#000#000000" \
entryUUID:\ 3f6a0e4c-0000-4000-8000-000000000001 creatorsName:\ cn=config modifiersName:\ cn=config \
createTimestamp:\ ${T}Z modifyTimestamp:\ ${T}Z '' && cat /dump.ldif) | slapadd -q -b '' -F zimbra/data/ldap/config
chown -R openldap: zimbra/data /data
;;
MidnightBSD/mports)
tools /usr/local/bsd/sbin; cat >/etc/rc.subr <<'END'
load_rc_config() { :; }; info() { echo "$@"; }; warn() { echo "$@" >&2; }; err() { shift; warn "$@"; exit 1; }
checkyesno() { eval "test \$$1 = YES"; }; run_rc_command() { $1_postcmd; }
END
sed 's:%%PREFIX%%:/usr/local/bsd:; s:%%BACKUPDIR%%:/var/backups/openldap:' $REPO/net/openldap26-server/files/slapd.in >/etc/init.d/slapd
;;
voxpupuli/puppet-openldap)
mkdir /modules; ln -s $REPO /modules/openldap
;;
lelutin/backupninja)
sed 's/@AWK@/awk/; s/@SED@/sed/' $REPO/handlers/ldap.in >/handler; cat >/ninja <<'END'
getconf() { eval "$1=\${2-}"; case $1 in method) method=slapcat;; restart) restart=no;; esac; }
debug() { echo "$@"; }; info() { echo "$@"; }; warning() { echo "$@"; }; fatal() { echo "$@"; exit 2; }
SLAPCAT=slapcat GZIP=gzip GZIP_OPTS=-1; . /handler
END
;;
cloudogu/ldap)
useradd -r -U ldap; for place in /etc /var/lib; do mv $place/ldap $place/openldap; ln -s openldap $place/ldap; done; mkdir -p /tmp/migration
cp $REPO/resources/pre-upgrade.sh /
;;
esac
test $TOOLS = /usr/sbin || PATH=$TOOLS:$PATH
cd $REPO; date +%s.%N >/time
bash -c "$2" >/out 2>/err </dev/null; echo $? >/status
date +%s.%N >>/time; test ! -e /usr/sbin/slapcat.distrib || mv /usr/sbin/slapcat.distrib /usr/sbin/slapcat
config=/etc/ldap/slapd.d; test ! -e /opt/zimbra || config=/opt/zimbra/data/ldap/config
/usr/sbin/slapcat -n 1 -F $config -l /entries.ldif
