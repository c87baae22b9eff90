"""Where programs run: `base` is the seam, `local` and `fake` implement it, `keeper` is local's."""
