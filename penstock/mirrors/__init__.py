"""`penstock mirror …`: manages the copies that workers make."""
