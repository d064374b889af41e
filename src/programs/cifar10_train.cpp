// cifar10_train: trains the CIFAR-10 tutorial's network.
//
//   mpirun -np 2 cifar10_train --data 'data/cifar10/train-*' --train-dir runs/cifar10 --max-steps 100000
//   cifar10_train --config jobs/recipes/cifar10_2rank_cpu.cfg --eval-data 'data/cifar10/test-*' --eval-every 5000
#include "carillon/app/app.h"
#include "carillon/app/program.h"

int main(int argc, char** argv) {
  using namespace carillon;
  return run_app("cifar10_train", argc, argv,
                 [&](const Mpi& mpi) { return train(cifar10_program(), argc, argv, mpi); });
}
