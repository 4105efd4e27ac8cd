"""How far apart two right answers may be, and when they must be equal to the bit.

Processors round differently: some fuse multiplication and addition, some sum in other orders, and each has
its own polynomials for exp and log. So numbers are compared to the bit only where both come from the same
operations in the same order on one machine (a run and its continuation, one worker and many, a federation
and the simulator), or where no rounding lies between them: copies, limits that were clipped to, zeros.
"""

ROUNDING = 1e-9
"""Relative. A result takes some hundred operations in double precision, each off by 1e-16 of its operands;
the roots are solved to 1e-12; and the rest is room for sums whose terms nearly cancel."""

FLOAT32 = 1e-5
"""Relative, of a vector's norm. The same for single precision, whose operations are off by 6e-8."""

KINKS = 1e-2
"""Relative, of the norm of a gradient or of what training changed, where a network of ReLUs is computed in
two ways. An activation within rounding of a kink, or of a tie in a pooling window, falls on either side of
it. One of N changes a gradient by about 1/sqrt(N): of a million it is met often, and 3e-3 was the most."""
