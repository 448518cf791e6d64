"""Every setting of slapd 2.4 to 2.7 that may stand beside or over a back-mdb database, and what it means for the file.

The attributes are those of slapd's own configuration schema, by object class (`fixtures/slapd_settings.txt` lists them
with their releases; a test compares both, and the schema of each installed slapd). A setting that is not listed here is
refused: nobody knows whether it decides what slapd stores.
"""

from __future__ import annotations

import re
from typing import NoReturn

from loader.backmdb import FRONTEND
from loader.config import NOT_SETTINGS, Config, Database
from loader.errors import SettingRefused

DEFINITIONS = ("olcObjectIdentifier", "olcLdapSyntaxes", "olcAttributeTypes", "olcObjectClasses", "olcDitContentRules")
# Settings that decide what slapadd and slapindex accept and store.
STORED = {
    "olcGlobal": (
        "olcAttributeOptions",
        "olcIndexHash64",
        "olcIndexIntLen",
        "olcIndexSubstrAnyLen",
        "olcIndexSubstrAnyStep",
        "olcIndexSubstrIfMaxLen",
        "olcIndexSubstrIfMinLen",
        *DEFINITIONS,
    ),
    "olcFrontendConfig": ("olcSortVals",),
    "olcDatabaseConfig": (
        "olcSuffix",
        "olcRootDN",  # creatorsName of entries that have none
        "olcLastMod",
        "olcSyncUseSubentry",
    ),
    "olcMdbConfig": ("olcDbIndex", "olcDbMaxEntrySize", "olcDbMultival", "olcDbPageSize"),
    "olcMdbBkConfig": ("olcBkMdbIdlExp",),
    "olcModuleList": ("olcModulePath", "olcModuleLoad"),
    "olcSchemaConfig": DEFINITIONS,
}
# Settings that decide how slapadd and slapindex work: where, in which room, how fast.
FOR_TOOLS = {
    "olcGlobal": ("olcToolThreads",),  # slapadd -q reads with one thread and writes with another
    "olcMdbConfig": ("olcDbDirectory", "olcDbEnvFlags", "olcDbMaxSize", "olcDbNoSync"),
}
# Settings whose effect on the file ditseed does not reproduce, and that effect.
REFUSED = {
    "olcMdbConfig": dict.fromkeys(
        ("olcDbCryptoModule", "olcDbPassphrase"), "so slapd encrypts the data file, and opens no other"
    )
}
# All others. In tool mode overlays do nothing for an entry (backover.c hands all tool calls to the database).
_OTHERS = {
    "olcGlobal": """
        cn olcAllows olcArgsFile olcAuthIDRewrite olcAuthzPolicy olcAuthzRegexp olcConcurrency
        olcConfigDir olcConfigFile olcConnMaxPending olcConnMaxPendingAuth olcDisallows
        olcGentleHUP olcIdleTimeout olcListenerThreads olcLocalSSF olcLogFile olcLogFileFormat
        olcLogFileOnly olcLogFileRotate olcLogLevel olcMaxFilterDepth olcPasswordCryptSaltFormat
        olcPasswordHash olcPidFile olcPluginLogFile olcReadOnly olcReferral olcReplogFile
        olcRequires olcRestrict olcReverseLookup olcRootDSE olcSaslAuxprops
        olcSaslAuxpropsDontUseCopy olcSaslAuxpropsDontUseCopyIgnore olcSaslCBinding olcSaslHost
        olcSaslRealm olcSaslSecProps olcSecurity olcServerID olcSizeLimit olcSockbufMaxIncoming
        olcSockbufMaxIncomingAuth olcTCPBuffer olcThreadQueues olcThreads olcTimeLimit
        olcTLSCACertificate olcTLSCACertificateFile olcTLSCACertificatePath olcTLSCertificate
        olcTLSCertificateFile olcTLSCertificateKey olcTLSCertificateKeyFile olcTLSCipherSuite
        olcTLSCRLCheck olcTLSCRLFile olcTLSDHParamFile olcTLSECName olcTLSProtocolMin
        olcTLSRandFile olcTLSVerifyClient olcWriteTimeout
    """,
    "olcDatabaseConfig": """
        olcAccess olcAddContentAcl olcDatabase olcDisabled olcExtraAttrs olcHidden olcLastBind
        olcLastBindPrecision olcLastBindSendAssert olcLimits olcMaxDerefDepth olcMirrorMode
        olcMonitoring olcMultiProvider olcPlugin olcReadOnly olcReplica olcReplicaArgsFile
        olcReplicaPidFile olcReplicationInterval olcReplogFile olcRequires olcRestrict
        olcRestrictOp olcRootPW olcSchemaDN olcSecurity olcSizeLimit olcSubordinate olcSyncrepl
        olcTimeLimit olcUpdateDN olcUpdateRef
    """,
    "olcFrontendConfig": "olcDefaultSearchBase olcPasswordHash",
    "olcMdbConfig": "olcDbCheckpoint olcDbMaxReaders olcDbMode olcDbRtxnSize olcDbSearchStack",
    "olcBackendConfig": "olcBackend",
    "olcModuleList": "cn",
    "olcSchemaConfig": "cn",
    "olcADremapConfig": "olcADremapDNmap olcADremapDowncase",
    "olcAccessLogConfig": """
        olcAccessLogBase olcAccessLogDB olcAccessLogOld olcAccessLogOldAttr olcAccessLogOps
        olcAccessLogPurge olcAccessLogPurgeBatch olcAccessLogSuccess
    """,
    "olcAliasConfig": "olcAliasMapping",
    "olcAuditlogConfig": "olcAuditlogFile olcAuditlogNonBlocking",
    "olcAutoCAConfig": """
        olcAutoCADays olcAutoCAKeyBits olcAutoCAlocalDN olcAutoCAserverClass olcAutoCAserverDays
        olcAutoCAserverKeybits olcAutoCAuserClass olcAutoCAuserDays olcAutoCAuserKeybits
    """,
    "olcAutoGroupConfig": """
        olcAGattrSet olcAGmemberOfAd olcAutoGroupAttrSet olcAutoGroupMemberOfAd
    """,
    "olcChainConfig": """
        olcChainCacheURI olcChainingBehavior olcChainMaxReferralDepth olcChainReturnError
    """,
    "olcCloakConfig": "olcCloakAttribute",
    "olcCollectConfig": "olcCollectInfo",
    "olcConstraintConfig": "olcConstraintAllowEmpty olcConstraintAttribute",
    "olcDDSConfig": """
        olcDDSdefaultTtl olcDDSinterval olcDDSmaxDynamicObjects olcDDSmaxTtl olcDDSminTtl
        olcDDSstate olcDDStolerance
    """,
    "olcDistProcConfig": "olcChainCacheURI olcChainingBehavior",
    "olcDynGroupConfig": "olcDGAttrPair olcDynGroupAttrPair",
    "olcDynListConfig": "olcDlAttrSet olcDynListAttrSet olcDynListSimple",
    "olcHomedirConfig": """
        olcHomedirArchivePath olcHomedirDeleteStyle olcHomedirRegexp olcMinimumUidNumber
        olcSkeletonPath
    """,
    "olcLastBindConfig": "olcLastBindForwardUpdates olcLastBindPrecision",
    "olcMemberOfConfig": """
        olcMemberOfAddCheck olcMemberOfDangling olcMemberOfDanglingError olcMemberOfDN
        olcMemberOfGroupOC olcMemberOfMemberAD olcMemberOfMemberOfAD olcMemberOfRefInt
        olcMemberOfReverse
    """,
    "olcNestGroupConfig": """
        olcNestGroupBase olcNestGroupFlags olcNestGroupMember olcNestGroupMemberOf
    """,
    "olcNssOvConfig": """
        olcNssMap olcNssPam olcNssPamDefHost olcNssPamGroupAD olcNssPamGroupDN olcNssPamMaxUid
        olcNssPamMinUid olcNssPamPwdProhibitMsg olcNssPamSession olcNssPamTemplate
        olcNssPamTemplateAD olcNssSsd olcPamPwdmgrDn olcPamPwdmgrPwd
    """,
    "olcOvSocketConfig": """
        olcDbSocketExtensions olcDbSocketPath olcOvSocketDNpat olcOvSocketOps olcOvSocketResps
    """,
    "olcOverlayConfig": "olcDisabled olcOverlay",
    "olcPBindConfig": "olcDbNetworkTimeout olcDbQuarantine olcDbStartTLS olcDbURI",
    "olcPPolicyConfig": """
        olcPPolicyCheckModule olcPPolicyDefault olcPPolicyDisableWrite olcPPolicyForwardUpdates
        olcPPolicyHashCleartext olcPPolicySendNetscapeControls olcPPolicyUseLockout
    """,
    "olcPcacheConfig": """
        olcPcache olcPcacheAttrset olcPcacheBind olcPcacheMaxQueries olcPcacheOffline
        olcPcachePersist olcPcachePosition olcPcacheTemplate olcPcacheValidate olcProxyAttrset
        olcProxyCache olcProxyCacheQueries olcProxyCacheTemplate olcProxyCheckCacheability
        olcProxyResponseCB olcProxySaveQueries olcProxyTemplate
    """,
    "olcRBACConfig": """
        olcRBACAdminDn olcRBACAdminPwd olcRBACDefaultAuditBaseDn olcRBACDefaultPermissionsBaseDn
        olcRBACDefaultRolesBaseDn olcRBACDefaultSessionsBaseDn olcRBACDefaultTenantId
        olcRBACDefaultUsersBaseDn olcRBACSessionAdminDn olcRBACSessionAdminPwd olcRBACTenant
    """,
    "olcRefintConfig": "olcRefintAttribute olcRefintModifiersName olcRefintNothing",
    "olcRemoteAuthCfg": """
        olcRemoteAuthDefaultDomain olcRemoteAuthDefaultRealm olcRemoteAuthDNAttribute
        olcRemoteAuthDomainAttribute olcRemoteAuthMapping olcRemoteAuthRetryCount
        olcRemoteAuthStore olcRemoteAuthTLS olcRemoteAuthTLSPeerkeyHash
    """,
    "olcRetcodeConfig": "olcRetcodeInDir olcRetcodeItem olcRetcodeParent olcRetcodeSleep",
    "olcRwmConfig": """
        olcRwmDropUnrequested olcRwmMap olcRwmNormalizeMapped olcRwmRewrite olcRwmTFSupport
    """,
    "olcSmbK5PwdConfig": "olcSmbK5PwdCanChange olcSmbK5PwdEnable olcSmbK5PwdMustChange",
    "olcSssVlvConfig": "olcSssVlvMax olcSssVlvMaxKeys olcSssVlvMaxPerConn",
    "olcSyncProvConfig": """
        olcSpCheckpoint olcSpNoPresent olcSpReloadHint olcSpSessionlog olcSpSessionlogSource
    """,
    "olcTranslucentConfig": """
        olcTranslucentBindLocal olcTranslucentLocal olcTranslucentNoGlue olcTranslucentPwModLocal
        olcTranslucentRemote olcTranslucentStrict
    """,
    "olcUniqueConfig": """
        olcUniqueAttribute olcUniqueBase olcUniqueIgnore olcUniqueStrict olcUniqueURI
    """,
    "olcValSortConfig": "olcValSortAttr",
    "olcVariantConfig": "olcVariantPassReplication",
    "olcovPerlConfig": """
        olcPerlFilterSearchResults olcPerlModule olcPerlModuleConfig olcPerlModulePath
    """,
}
_OVERLAYS = tuple(one for one in _OTHERS if one not in (*STORED, "olcBackendConfig"))
_BACKEND = ("olcBackendConfig", "olcMdbBkConfig")
_EVERYWHERE = ("olcGlobal", "olcDatabaseConfig", "olcFrontendConfig")

_PAGE_SIZES = (0, 4096, 8192, 16384, 32768, 65536)  # bytes; 0: the machine's
_UNKNOWN = "which is no setting of OpenLDAP 2.4 to 2.7"
_WITHOUT = (
    "If it does not change what slapd stores, give --config a copy of the configuration without it. Otherwise load "
    "with slapadd itself."
)
_WITH_SLAPADD = "Load with slapadd of that OpenLDAP itself."


def classed(object_class: str) -> tuple[str, ...]:
    """All settings of one of slapd's object classes, each of one group."""
    groups = (STORED, FOR_TOOLS, REFUSED)
    named = (name for group in groups for name in group.get(object_class, ()))
    return (*named, *_OTHERS.get(object_class, "").split())


def for_tools(*object_classes: str) -> tuple[str, ...]:
    """The settings of these object classes that slapadd and slapindex need to store the same."""
    groups = (STORED, FOR_TOOLS)
    return tuple(name for one in object_classes for group in groups for name in group.get(one, ()))


def require(config: Config, *databases: Database) -> None:
    """Raises SettingRefused for a setting that decides, or may decide, what these databases hold, and that ditseed does
    not follow."""
    own = {one.entry_dn.lower() for one in databases}
    effects = {name.lower(): effect for group in REFUSED.values() for name, effect in group.items()}
    for entry_dn, attributes in config.entries:
        known = {name.lower() for one in _classes(entry_dn, own) for name in classed(one)}
        for name in attributes if known else ():
            if name.lower() in effects:
                _refuse(config, entry_dn, name, effects[name.lower()], _WITH_SLAPADD)
            if name.lower() not in known | NOT_SETTINGS | {"objectclass"}:
                _refuse(config, entry_dn, name, _UNKNOWN, _WITHOUT)
    for database in databases:
        size = config.reader(database.entry_dn).number("olcDbPageSize", 0)
        if size not in _PAGE_SIZES:
            reason = f"{size} bytes, and ditseed reads no pages of less than 4096"
            _refuse(config, database.entry_dn, "olcDbPageSize", reason, _WITH_SLAPADD)


def _refuse(config: Config, entry_dn: str, name: str, reason: str, advice: str) -> NoReturn:
    facts = {"entry": entry_dn, "attribute": name, "reason": reason, "advice": advice}
    raise SettingRefused(config=config.where, **facts)


def _classes(entry_dn: str, databases: set[str]) -> tuple[str, ...]:
    """The object classes that an entry of cn=config may have; none where it says nothing about the databases."""
    entry_dn = re.sub(r"(^|,)olcdatabase=frontend,", r"\1olcdatabase={-1}frontend,", entry_dn.lower())
    first, _, parent = entry_dn.partition(",")
    frontend = FRONTEND.lower()
    if entry_dn in ("cn=config", frontend):
        return _EVERYWHERE
    if entry_dn in databases:
        return ("olcDatabaseConfig", "olcMdbConfig")
    if first.startswith("olcoverlay=") and parent in {*databases, frontend}:
        return _OVERLAYS
    return _BACKEND if re.fullmatch(r"olcbackend=(\{-?\d+\})?mdb,cn=config", entry_dn) else ()
