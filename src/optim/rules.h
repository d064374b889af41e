// The list of update rules. A new rule is one file in src/optim/rules and its name below.
#pragma once

#include "src/optim/rules/adamw.h"
#include "src/optim/rules/lamb.h"
#include "src/optim/rules/lars.h"
#include "src/optim/rules/momentum.h"
#include "src/optim/rules/muon.h"
#include "src/optim/rules/nesterov.h"
#include "src/optim/rules/sgd.h"

namespace carillon {

template <UpdateRule... R>
struct RuleList {};
using UpdateRules = RuleList<Sgd, Momentum, Nesterov, AdamW, Lars, Lamb, MuonAdamW, MuonNesterov>;

}  // namespace carillon
