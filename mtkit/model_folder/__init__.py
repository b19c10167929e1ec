"""Models on disk: everything that translating raw text needs."""
