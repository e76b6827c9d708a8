"""Allow the approval statuses `cancelled` and `superseded`, which replace `withdrawn` and `void`

The next migration renames the stored values. Processes of the previous version write the former
names, which the constraint rejects. Stop these processes first.
"""

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    name = op.f("approvals_status_known")
    op.drop_constraint(name, "approvals")
    op.create_check_constraint(
        name,
        "approvals",
        "status IN ('approved', 'cancelled', 'edited', 'expired', 'pending', 'rejected',"
        " 'responded', 'superseded')",
        postgresql_not_valid=True,
    )
