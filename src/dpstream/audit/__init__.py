"""The audit: tries to break the guarantee, and certifies how far it gets."""

from dpstream.audit.audit import Audit, audit
from dpstream.audit.certificate import LossCertificate
from dpstream.audit.trials import one_changed_step

__all__ = ["Audit", "LossCertificate", "audit", "one_changed_step"]
