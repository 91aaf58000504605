// kernels/ref in the place of a level: what whole models are compared with.
#pragma once

#include "kernels/plan.h"

namespace stoker::testing {

/// Computes everything with kernels/ref. For the weights of a checkpoint as they are: products with
/// packed ones abort.
kernels::KernelPlan plain_plan();

}  // namespace stoker::testing
