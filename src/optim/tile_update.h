// TileUpdate: the consumer of GradientTiles that updates the variables. With it, TileKernel is the step's last kernel.
// The values are those of an UpdateKernel that reads the same gradients, bit for bit; only the L2 loss has another
// order of its sum.
#pragma once

#include "kernels/dense_classifier/gradient_tiles.h"
#include "src/optim/update_kernels.h"

namespace carillon {

template <ElementwiseRule Rule>
struct TileUpdate {
  using Finish = StepFinish<GradientTiles::threads>;
  static constexpr int phases = Finish::phases;
  static_assert(FlatShare::pack == classifier_pack);

  struct Shared {
    typename Finish::Shared finish;
    StepScalars scalars;
    bool allows_update;
  };

  UpdateKernel<Rule> update;  ///< without clipping and lookahead; its gradients are not read
  Finish finish;

  CARILLON_HOST_DEVICE void begin(Shared& shared, int thread) const {
    const StepHeader& header = update.table.header();
    Finish::begin(shared.finish, header, thread);
    shared.finish.sums[thread] = 0.0;
    if (thread != 0) return;
    shared.scalars = header.scalars;
    shared.allows_update = update.end.allows_update();
  }
  CARILLON_HOST_DEVICE void take(Shared& shared, int thread, const TilePacks& packs) const {
    if (shared.finish.reports_l2) {
      for (const std::ptrdiff_t i : packs.places) {
        if (i >= 0) shared.finish.sums[thread] += update.l2_of_pack(static_cast<std::size_t>(i));
      }
    }
    if (!shared.allows_update) return;
    const StepScalars scalars = shared.scalars;
    constexpr bool ahead = false;
    typename UpdateKernel<Rule>::Elements elements[TilePacks::count];
    UpdateFactors factors[TilePacks::count];
    CARILLON_UNROLL
    for (int n = 0; n < TilePacks::count; ++n) {  // all loads before the first store
      if (!packs.exists(n)) continue;
      elements[n] = update.load_elements(packs.place(n), ahead);
      factors[n] = update.factors.at(packs.place(n));
    }
    CARILLON_UNROLL
    for (int n = 0; n < TilePacks::count; ++n) {
      if (!packs.exists(n)) continue;
      update.update_elements(elements[n], packs.gradients[n], factors[n], scalars, ahead);
      update.store_elements(elements[n], packs.place(n), ahead);
    }
  }
  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared& shared, int blocks, int block, int thread) const {
    finish.template run<phase>(shared.finish, blocks, block, thread, update.end);
  }
};

}  // namespace carillon
