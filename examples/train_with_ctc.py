"""Trains a network of torch with ds2's CTC loss, which takes logits and computes the log-softmax itself.

python examples/train_with_ctc.py
"""

import torch

from ds2.ctc import CTCLoss

FRAMES, FEATURES, TOKENS = 30, 8, 5  # token 0 is the blank


def main() -> None:
    torch.manual_seed(0)
    features = torch.randn(4, FRAMES, FEATURES)
    targets = torch.randint(1, TOKENS, (4, 6))
    input_lengths, target_lengths = torch.full((4,), FRAMES), torch.tensor([6, 5, 4, 3])
    network = torch.nn.Sequential(torch.nn.Linear(FEATURES, 32), torch.nn.ReLU(), torch.nn.Linear(32, TOKENS))
    optimizer, ctc = torch.optim.AdamW(network.parameters(), 1e-2), CTCLoss()
    for step in range(20):
        optimizer.zero_grad()
        loss = ctc(network(features), targets, input_lengths, target_lengths)
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            print(f"step {step + 1}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
