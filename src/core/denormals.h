// flush_denormals: numbers too small for a normal float count as zero, in the calling thread and in those that it
// starts.
//
// Gradients and moving averages that die away end in denormals, on which some processors are slow: on an Emerald Rapids
// a training with raw pixels was measured at a third of its speed. They carry nothing that a training can use: the
// smallest normal float is 1.2e-38.
#pragma once

namespace carillon {

/// Operands and results. No effect on processors that it does not know.
void flush_denormals();

}  // namespace carillon
